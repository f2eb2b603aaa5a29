"""Log entries that a power failure has cut are errors, never fewer rows, and can be repaired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.errors import DamagedLogError, OffsetAheadError
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri
from headrace.storage.delta.log_entries import log_file
from headrace.storage.delta.repair import repair_tables
from tests.storage.samples import METERS, POWER, Row, open_tables, read, rows

CUTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
}


def cut(tables: Tables, version: int, how: str) -> None:
    entry = Path(log_file(rows_uri(tables.uri, METERS), version))
    entry.write_bytes(CUTS[how](entry.read_bytes()))


def write(tables: Tables, *times: int) -> None:
    for time in times:
        tables.writer.write(METERS, POWER, rows([{"ts": time, "a": time}]))


def stored(tables: Tables) -> list[Row]:
    return read(tables.scan(METERS))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("how", CUTS)
def test_a_damaged_entry_is_an_error_of_readers_and_writers(meters: Tables, tmp_path: Path, how: str, version: int) -> None:
    write(meters, 1, 2, 3)
    cut(meters, version, how)
    tables = open_tables(tmp_path)
    for use in (lambda: stored(tables), lambda: write(tables, 4), lambda: tables.version(METERS)):
        with pytest.raises(DamagedLogError, match=f"version {version} of table power.meters is damaged"):
            use()


@pytest.mark.parametrize("how", CUTS)
def test_an_open_table_notices_a_damaged_entry(meters: Tables, tmp_path: Path, how: str) -> None:
    write(meters, 1)
    assert len(stored(meters)) == 1
    write(open_tables(tmp_path), 2)
    cut(meters, 2, how)
    for use in (lambda: meters.version(METERS), lambda: stored(meters), lambda: write(meters, 3)):
        with pytest.raises(DamagedLogError):
            use()


@pytest.mark.parametrize("how", CUTS)
def test_a_repaired_table_has_the_other_rows_and_its_number_of_versions(meters: Tables, tmp_path: Path, how: str) -> None:
    write(meters, 1, 2, 3)
    cut(meters, 2, how)
    assert len(list(repair_tables(meters.uri))) == 1
    tables = open_tables(tmp_path)
    write(tables, 4)
    assert len(stored(tables)) == 3
    assert tables.version(METERS) == 4
    assert not list(repair_tables(meters.uri))


def test_a_version_without_a_file_that_it_adds_is_an_error_and_can_be_repaired(meters: Tables, tmp_path: Path) -> None:
    write(meters, 1, 2)
    newest = max(Path(rows_uri(meters.uri, METERS)).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(b"")
    with pytest.raises(DamagedLogError, match=newest.name):
        stored(open_tables(tmp_path))
    assert len(list(repair_tables(meters.uri))) == 1
    assert [row["a"] for row in stored(open_tables(tmp_path))] == [1]


def test_a_repair_drops_checkpoints_that_have_what_is_lost(meters: Tables, tmp_path: Path) -> None:
    write(meters, 1, 2)
    DeltaTable(rows_uri(meters.uri, METERS)).create_checkpoint()
    cut(meters, 2, "empty")
    assert len(list(repair_tables(meters.uri))) == 2
    assert [row["a"] for row in stored(open_tables(tmp_path))] == [1]


def test_a_cut_checkpoint_is_an_error_and_can_be_repaired(meters: Tables, tmp_path: Path) -> None:
    write(meters, 1, 2)
    uri = rows_uri(meters.uri, METERS)
    DeltaTable(uri).create_checkpoint()
    Path(uri, "_delta_log", f"{2:020}.checkpoint.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamagedLogError, match="checkpoint"):
        stored(open_tables(tmp_path))
    assert len(list(repair_tables(meters.uri))) == 1
    assert [row["a"] for row in stored(open_tables(tmp_path))] == [1, 2]


def test_changes_of_versions_that_were_lost_are_an_error(meters: Tables) -> None:
    write(meters, 1)
    with pytest.raises(OffsetAheadError, match=r"version 2 of table power.meters has been read, but the newest one is 1"):
        meters.changes.read(METERS, 2, 2)
