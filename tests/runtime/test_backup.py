"""Backups: everything is there after the home is gone, and streams continue where they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace
from headrace.catalog import Catalog
from headrace.model.snodes import Lease
from headrace.runtime.backup import MANIFEST, back_up, restore
from headrace.settings import Settings, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
CREATE = (
    "CREATE DATABASE plant",
    "CREATE STABLE plant.pumps (ts TIMESTAMP, flow DOUBLE) TAGS (hall VARCHAR(20))",
    "CREATE TABLE plant.p1 USING plant.pumps TAGS ('north')",
    "CREATE STREAM plant.sums FILL_HISTORY 1 INTO plant.flow_1m AS"
    " SELECT _wstart AS ts, sum(flow) AS total, count(*) AS n FROM plant.pumps PARTITION BY tbname INTERVAL(1m)",
)
RESULT = "SELECT ts, total, n FROM plant.flow_1m ORDER BY ts"


@pytest.fixture
def connection(settings: Settings, spark: SparkSession) -> Iterator[headrace.Connection]:  # noqa: ARG001
    with headrace.connect(settings=settings) as opened:
        for statement in CREATE:
            opened.execute(statement)
        yield opened


def insert(connection: headrace.Connection, minute: int) -> None:
    rows = ", ".join(f"('2026-01-01 12:{minute:02}:{second:02}', {minute})" for second in (0, 20, 40))
    connection.execute(f"INSERT INTO plant.p1 VALUES {rows}")


def contents(folder: Path) -> list[Path]:
    return [path for path in (folder / "contents").rglob("*") if path.is_file()]


def totals(connection: headrace.Connection) -> list[tuple[Any, ...]]:
    connection.settle()
    return [(total, n) for _, total, n in connection.execute(RESULT).fetchall()]


def test_a_stream_continues_in_a_restored_home(connection: headrace.Connection, settings: Settings, tmp_path: Path) -> None:
    for minute in range(3):
        insert(connection, minute)
    before = totals(connection)
    folder = str(tmp_path / "backup")
    backup = back_up(connection.session.context, folder)
    assert (backup.databases, backup.jobs, before) == (1, 1, [(0.0, 3), (3.0, 3)])
    connection.close()
    shutil.rmtree(settings.home_path)
    with headrace.connect(settings=settings) as restored:
        assert restore(restored.session.context, folder) == backup
    with headrace.connect(settings=settings) as restored:
        assert totals(restored) == before
        insert(restored, 3)
        insert(restored, 4)
        assert totals(restored) == [*before, (6.0, 3), (9.0, 3)]


def test_a_second_backup_copies_only_what_is_new(connection: headrace.Connection, tmp_path: Path) -> None:
    folder, context = tmp_path / "backup", connection.session.context
    insert(connection, 0)
    back_up(context, str(folder))
    times = {path: path.stat().st_mtime_ns for path in contents(folder)}
    insert(connection, 1)
    connection.execute("DROP STREAM plant.sums")
    again = back_up(context, str(folder))
    kept = {path: path.stat().st_mtime_ns for path in contents(folder) if path in times}
    assert len(kept) > 1
    assert kept == {path: times[path] for path in kept}
    assert again.jobs == 0
    manifest = json.loads((folder / MANIFEST).read_text())
    files = [*manifest["tables"].values(), manifest["catalog"], *([manifest["key"]] if manifest["key"] else [])]
    assert {path.name for path in contents(folder)} == {file["digest"] for file in files}
    assert len(manifest["tables"]) == again.files


def test_a_backup_moves_between_databases(
    connection: headrace.Connection, settings: Settings, tmp_path: Path, postgres_url: str
) -> None:
    insert(connection, 0)
    context = connection.session.context
    back_up(context, str(tmp_path / "backup"))
    elsewhere = load(home=tmp_path / "elsewhere", catalog_url=postgres_url)
    with headrace.connect(settings=elsewhere) as restored:
        restore(restored.session.context, str(tmp_path / "backup"))
        assert restored.execute("SELECT count(*) FROM plant.pumps").fetchall() == [(3,)]
        with Catalog.open(settings.catalog) as original, Catalog.open(postgres_url) as copy:
            assert [record.definition for record in copy.jobs.all()] == [record.definition for record in original.jobs.all()]
            copy.events.record("job", "x", "NEW", "after the copied ones")
        back_up(restored.session.context, str(tmp_path / "back"))
        assert (tmp_path / "back" / MANIFEST).exists()


def test_a_running_snode_is_not_copied(connection: headrace.Connection, tmp_path: Path) -> None:
    catalog = connection.session.context.catalog
    lease = catalog.leases.acquire("default", "driver", 60_000, "http://127.0.0.1:1")
    assert isinstance(lease, Lease)
    catalog.snodes.beat(lease, token="t")
    with pytest.raises(headrace.ConflictError, match="snode default is running") as raised:
        back_up(connection.session.context, str(tmp_path / "backup"))
    assert "headrace down" in str(raised.value.hint)
    assert not (tmp_path / "backup").exists()


def test_only_an_unused_home_is_restored(connection: headrace.Connection, tmp_path: Path) -> None:
    context = connection.session.context
    back_up(context, str(tmp_path / "backup"))
    with pytest.raises(headrace.ConflictError, match="the home is in use"):
        restore(context, str(tmp_path / "backup"))


def test_a_backup_that_did_not_end_is_not_restored(connection: headrace.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(connection.session.context, str(folder))
    (folder / MANIFEST).write_bytes(b"")
    with (
        headrace.connect(settings=load(home=tmp_path / "new")) as new,
        pytest.raises(headrace.NotFoundError, match="has no complete backup"),
    ):
        restore(new.session.context, str(folder))


def test_a_folder_with_other_files_is_left_alone(connection: headrace.Connection, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.raises(headrace.ConflictError, match="has files that are no backup"):
        back_up(connection.session.context, str(tmp_path))
    assert (tmp_path / "notes.txt").read_text() == "keep me"


def test_a_folder_with_a_backup_of_another_home_is_left_alone(connection: headrace.Connection, tmp_path: Path) -> None:
    folder = str(tmp_path / "backup")
    back_up(connection.session.context, folder)
    before = (tmp_path / "backup" / MANIFEST).read_bytes()
    with (
        headrace.connect(tmp_path / "other") as other,
        pytest.raises(headrace.ConflictError, match=r"has a backup of .*, not of .*other"),
    ):
        back_up(other.session.context, folder)
    assert (tmp_path / "backup" / MANIFEST).read_bytes() == before
    back_up(connection.session.context, folder)
