"""Backups of tables that need no Spark: right by content, complete until the next one is, and closed to others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import StorageError
from headrace.runtime import backup
from headrace.runtime.backup import MANIFEST, back_up, restore
from headrace.runtime.backup_files import Contents, Folder
from headrace.settings import Settings, load

READ = "SELECT v FROM root.a.d"


@pytest.fixture
def connection(settings: Settings) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=settings) as opened:
        fill(opened, 100)
        yield opened


def fill(connection: headrace.Connection, first: int) -> None:
    connection.execute("CREATE DATABASE root.a")
    for time in range(first, first + 3):
        connection.execute(f"INSERT INTO root.a.d(time, v) VALUES ({time}, {time})")


def values(connection: headrace.Connection) -> list[Any]:
    return [row[1] for row in connection.execute(READ).fetchall()]


def restored(folder: Path, home: Path) -> list[Any]:
    settings = load(home=home)
    with headrace.connect(dialect="iotdb", settings=settings) as new:
        restore(new.session.context, str(folder))
    with headrace.connect(dialect="iotdb", settings=settings) as new:
        return values(new)


def test_a_table_that_was_dropped_and_created_again_is_restored(connection: headrace.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(connection.session.context, str(folder))
    connection.execute("DELETE DATABASE root.a")
    fill(connection, 200)
    back_up(connection.session.context, str(folder))
    assert restored(folder, tmp_path / "new") == [200, 201, 202]


def test_the_last_backup_is_kept_until_the_next_is_complete(
    connection: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, add, calls = tmp_path / "backup", Contents.add, iter(range(100))
    back_up(connection.session.context, str(folder))
    connection.execute("INSERT INTO root.a.d(time, v) VALUES (300, 300)")

    def failing(*arguments: Any) -> Any:
        if next(calls) == 3:
            raise OSError(28, "No space left on device")
        return add(*arguments)

    monkeypatch.setattr(Contents, "add", failing)
    with pytest.raises(OSError, match="No space"):
        back_up(connection.session.context, str(folder))
    monkeypatch.undo()
    assert restored(folder, tmp_path / "first") == [100, 101, 102]
    back_up(connection.session.context, str(folder))
    assert restored(folder, tmp_path / "second") == [100, 101, 102, 300]


def test_a_first_backup_that_failed_can_be_repeated(
    connection: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backup"

    def failing(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "copy_tables", failing)
    with pytest.raises(OSError, match="No space"):
        back_up(connection.session.context, str(folder))
    monkeypatch.undo()
    back_up(connection.session.context, str(folder))
    assert restored(folder, tmp_path / "new") == [100, 101, 102]


@pytest.mark.parametrize(("writes", "succeeds"), [(1, True), (100, False)])
def test_tables_that_are_written_meanwhile_are_read_again(
    connection: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, succeeds: bool
) -> None:
    folder, copy, times = tmp_path / "backup", backup.copy_tables, iter(range(300, 300 + writes))

    def written(*arguments: Any) -> Any:
        copied = copy(*arguments)
        for time in times:
            connection.execute(f"INSERT INTO root.a.d(time, v) VALUES ({time}, {time})")
            break
        return copied

    monkeypatch.setattr(backup, "copy_tables", written)
    if not succeeds:
        with pytest.raises(headrace.ConflictError, match="tables were written while they were copied"):
            back_up(connection.session.context, str(folder))
        assert not (folder / MANIFEST).exists()
        return
    back_up(connection.session.context, str(folder))
    assert restored(folder, tmp_path / "new") == [100, 101, 102, 300]


def test_a_backup_is_closed_to_other_users(connection: headrace.Connection, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "above" / "backup"
    (settings.home_path / "secret.key").touch()
    folder.mkdir(parents=True, mode=0o755)
    back_up(connection.session.context, str(folder))
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_a_changed_or_missing_content_is_not_restored(connection: headrace.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(connection.session.context, str(folder))
    content = next(path for path in (folder / "contents").rglob("*") if path.is_file())
    changed = shutil.copytree(folder, tmp_path / "changed") / content.relative_to(folder)
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    with pytest.raises(StorageError, match="has changed"):
        restored(tmp_path / "changed", tmp_path / "first")
    content.unlink()
    with pytest.raises(StorageError, match="is missing"):
        restored(folder, tmp_path / "second")


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped", "link/escaped", "a//b", "", "."])
def test_a_name_outside_of_the_warehouse_is_refused(connection: headrace.Connection, tmp_path: Path, name: str) -> None:
    folder, outside = tmp_path / "backup", tmp_path / "outside"
    back_up(connection.session.context, str(folder))
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["tables"][name] = next(iter(manifest["tables"].values()))
    (folder / MANIFEST).write_text(json.dumps(manifest))
    new = load(home=tmp_path / "new")
    outside.mkdir()
    warehouse = Path(Folder.at(new.tables_uri).path)
    warehouse.mkdir(parents=True)
    (warehouse / "link").symlink_to(outside)
    with pytest.raises(StorageError, match="outside of"):
        restored(folder, tmp_path / "new")
    assert not [path for path in warehouse.rglob("*") if path.is_file()]
    assert not list(outside.iterdir())


@pytest.mark.parametrize("digest", ["../../manifest.json", "a" * 63, ""])
def test_a_digest_that_is_none_makes_a_manifest_damaged(connection: headrace.Connection, tmp_path: Path, digest: str) -> None:
    folder = tmp_path / "backup"
    back_up(connection.session.context, str(folder))
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["catalog"]["digest"] = digest
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(StorageError, match="is damaged"):
        restored(folder, tmp_path / "new")
