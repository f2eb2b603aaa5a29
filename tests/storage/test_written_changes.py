"""Changes that a process has written itself, which it need not read from files, equal those that another process reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.errors import StorageError
from headrace.model.tables import Column
from headrace.model.types import DataType, TypeKind
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri
from headrace.storage.delta.log_entries import log_file
from headrace.storage.delta.written_rows import MAX_KEPT_ROWS
from tests.storage.samples import METERS, POWER, open_tables, rows

WIDER = replace(METERS, columns=(*METERS.columns, Column("c", DataType(TypeKind.INT))))


def insert(tables: Tables, first: int, count: int = 3) -> int:
    """Insert rows of two subtables at instants of their own; return the version."""
    data = [{"ts": first + number, "a": number, "tbname": f"d{number % 2}"} for number in range(count)]
    return tables.writer.write(METERS, POWER, rows(data)).version


def check(tables: Tables, first: int, last: int) -> None:
    """Check that the changes of versions are those that another process reads."""
    ours, theirs = (one.changes.read(METERS, first, last) for one in (tables, open_tables(Path(tables.uri).parent)))
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    keys = [(name, "ascending") for name in ("_commit_version", "ts", "_change_type")]
    assert ours.sort_by(keys) == theirs.sort_by(keys)


@pytest.fixture
def followed(meters: Tables) -> Tables:
    """Tables with the empty `power.meters`, whose changes are read from the start."""
    check(meters, 0, 0)
    return meters


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what lets nothing read changes from files from now on."""

    def refuse(*_: object) -> None:
        raise AssertionError("changes are read from files")

    return lambda: monkeypatch.setattr(DeltaTable, "load_cdf", refuse)


def test_inserted_rows_are_not_read_from_files(followed: Tables, without_files: Callable[[], None]) -> None:
    versions = [insert(followed, first) for first in (0, 10, 20)]
    check(followed, versions[0], versions[1])
    check(followed, *versions[1:])
    without_files()
    changes = followed.changes.read(METERS, versions[0], versions[-1])
    assert changes["_commit_version"].to_pylist() == [version for version in versions for _ in range(3)]
    assert set(changes["_change_type"].to_pylist()) == {"insert"}


def test_the_changes_of_a_compaction_are_none(followed: Tables, without_files: Callable[[], None]) -> None:
    for first in (0, 10, 20):
        insert(followed, first)
    assert followed.maintenance.compact(METERS) == 3
    check(followed, 1, 4)
    check(followed, 4, 4)
    last = insert(followed, 30)
    without_files()
    assert followed.changes.read(METERS, last, last).num_rows == 3


def update(tables: Tables) -> None:
    tables.writer.write(METERS, POWER, rows([{"ts": 0, "a": 9, "tbname": "d0"}]))


def delete(tables: Tables) -> None:
    tables.writer.delete(METERS, POWER, ranges=[(0, 1)])


def insert_many(tables: Tables) -> None:
    insert(tables, 100, MAX_KEPT_ROWS + 1)


def insert_elsewhere(tables: Tables) -> None:
    insert(open_tables(Path(tables.uri).parent), 100)


@pytest.mark.parametrize("work", [update, delete, insert_many, insert_elsewhere])
def test_other_changes_are_read_from_files(followed: Tables, work: Callable[[Tables], None]) -> None:
    insert(followed, 0)
    check(followed, 1, 1)
    work(followed)
    insert(followed, 50)
    check(followed, 1, 3)
    check(followed, 2, 2)
    check(followed, 3, 3)


def test_a_column_that_was_added_is_there(followed: Tables) -> None:
    insert(followed, 0)
    check(followed, 1, 1)
    followed.columns.add(METERS, POWER, [WIDER.columns[-1]])
    added = insert(followed, 10)
    check(followed, 1, 1)
    check(followed, 1, added)
    assert "c" in followed.changes.read(METERS, added, added).column_names


def test_a_table_that_was_created_again_has_its_own_changes(followed: Tables) -> None:
    for first in (0, 10, 20):
        insert(followed, first)
    check(followed, 1, 3)
    followed.drop(METERS)
    followed.create(WIDER, POWER)
    insert(followed, 40)
    assert followed.changes.read(METERS, 1, 1)["ts"].to_pylist() != []
    check(followed, 1, 1)


def test_a_damaged_log_entry_is_an_error_of_the_storage(followed: Tables) -> None:
    insert(followed, 0)
    check(followed, 1, 1)
    entry = Path(log_file(rows_uri(followed.uri, METERS), insert(followed, 10)))
    sound = entry.read_text()
    entry.write_text("damage")
    with pytest.raises(StorageError):
        followed.changes.read(METERS, 1, 2)
    entry.write_text(sound)
    assert followed.changes.read(METERS, 1, 2).num_rows == 6


def test_the_newest_version_is_known_without_reading_the_log(followed: Tables) -> None:
    assert followed.version(METERS) == 0
    last = insert(open_tables(Path(followed.uri).parent), 0)
    assert followed.version(METERS) == last == 1
    assert insert(followed, 10) == followed.version(METERS) == 2
    followed.drop(METERS)
    followed.create(METERS, POWER)
    assert followed.version(METERS) == 0
