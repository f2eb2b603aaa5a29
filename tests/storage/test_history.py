"""What is kept of a table's past, and what maintenance removes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import HistoryGoneError
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri, write_checkpoint
from headrace.storage.delta.history import MAX_LOAD_HOURS, Log, history_properties
from headrace.storage.delta.log_entries import log_file
from tests.storage.samples import METERS, POWER, open_tables, read, rows

HOUR_S = 3_600


@pytest.fixture
def written(meters: Tables) -> Tables:
    """Versions 1 to 8 insert a row each; checkpoints of 3 and 6."""
    for number in range(1, 9):
        meters.writer.write(METERS, POWER, rows([{"ts": number, "a": number}]))
        if number in (3, 6):
            write_checkpoint(uri_of(meters), number)
    return meters


def uri_of(tables: Tables) -> str:
    return rows_uri(tables.uri, METERS)


def entries(tables: Tables) -> list[int]:
    return sorted(Log.of(uri_of(tables)).entries)


def age(tables: Tables, hours: float, *versions: int) -> None:
    """Make log entries this much older."""
    for version in versions:
        path = log_file(uri_of(tables), version)
        time = os.stat(path).st_mtime - hours * HOUR_S
        os.utime(path, (time, time))


def values(tables: Tables, version: int | None = None) -> list[int]:
    return [row["a"] for row in read(tables.scan(METERS, version=version))]


def test_log_entries_before_the_last_checkpoint_that_is_old_enough_are_removed(written: Tables, tmp_path: Path) -> None:
    age(written, 13, *range(5))

    written.maintenance.vacuum(METERS, 12)

    assert entries(written) == [3, 4, 5, 6, 7, 8]
    for tables in (written, open_tables(tmp_path)):
        assert values(tables) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert values(tables, 4) == [1, 2, 3, 4]
        assert tables.changes.read(METERS, 4, 8).num_rows == 5
        with pytest.raises(HistoryGoneError, match="in version 2 have been removed"):
            tables.changes.read(METERS, 2, 8)


def test_what_the_slowest_reader_has_yet_to_read_is_kept(written: Tables) -> None:
    written.writer.write(METERS, POWER, rows([{"ts": 5, "a": 50}]))
    written.maintenance.compact(METERS)
    age(written, 100, *entries(written))
    before = written.changes.read(METERS, 6, 9)

    assert written.maintenance.vacuum(METERS, 12, 5) == 0
    assert entries(written) == [*range(3, 11)]
    assert written.changes.read(METERS, 6, 9) == before
    assert values(written, 5) == [1, 2, 3, 4, 5]

    assert written.maintenance.vacuum(METERS, 12) == 9 + 1
    assert entries(written) == [*range(6, 11)]
    assert values(written) == [1, 2, 3, 4, 50, 6, 7, 8]


def test_a_file_that_was_removed_since_outlives_its_age(written: Tables) -> None:
    folder = Path(uri_of(written))
    written.maintenance.compact(METERS)
    age(written, 13, *range(9))
    for file in folder.glob("*.parquet"):
        os.utime(file, (0, 0))

    assert written.maintenance.vacuum(METERS, 12) == 0
    assert values(written, 8) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_files_that_no_commit_has_added_are_removed_after_a_day(written: Tables) -> None:
    folder = Path(uri_of(written), "staged-1")
    folder.mkdir()
    old, young = folder / "old.parquet", folder / "young.parquet"
    for file, hours in ((old, MAX_LOAD_HOURS + 2), (young, MAX_LOAD_HOURS - 2)):
        file.write_bytes(b"")
        time = file.stat().st_mtime - hours * HOUR_S
        os.utime(file, (time, time))

    assert written.maintenance.vacuum(METERS, 0) == 1
    assert (old.exists(), young.exists()) == (False, True)


def test_no_commit_removes_log_entries(written: Tables) -> None:
    age(written, 10_000, *range(9))
    with written._handles.writer(METERS).latest() as delta:
        delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 hours"})
        delta.create_checkpoint()
    written.writer.write(METERS, POWER, rows([{"ts": 5, "a": 50}]))

    assert entries(written) == [*range(11)]


def test_a_table_says_how_long_its_history_is_kept(written: Tables) -> None:
    def properties() -> dict[str, str]:
        with written._handles.reader(METERS).latest_snapshot() as newest:
            return {name: newest.properties[name] for name in history_properties()}

    assert properties() == history_properties()
    written.maintenance.announce_history(METERS, 48)
    version = written.version(METERS)
    assert properties() == history_properties(48)
    written.maintenance.announce_history(METERS, 48)
    written.writer.write(METERS, POWER, rows([{"ts": 9, "a": 9}]))
    assert written.version(METERS) == version + 1
