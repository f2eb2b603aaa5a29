"""The newest version of a table beside commits of others, by the names of its log entries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from headrace.storage import Tables
from headrace.storage.delta.handles import GAPS, look_again, rows_uri, write_checkpoint
from headrace.storage.delta.log_entries import last_checkpoint, log_file, newest_version
from tests.storage.samples import METERS, POWER, open_tables, read, rows


def write(tables: Tables, *instants: int) -> None:
    for instant in instants:
        tables.writer.write(METERS, POWER, rows([{"ts": instant, "a": instant}]))


def log_of(tables: Tables) -> str:
    return rows_uri(tables.uri, METERS)


def leave_gap(tables: Tables) -> None:
    """Leave the log as a listing beside commits may show it: without entries that precede the last one."""
    uri, newest = log_of(tables), tables.version(METERS)
    shutil.copy(log_file(uri, newest), log_file(uri, newest + 3))


def test_a_table_is_read_and_maintained_although_a_listing_lacks_an_entry(meters: Tables, tmp_path: Path) -> None:
    reader = open_tables(tmp_path)
    write(meters, 1, 2)
    assert reader.rows(METERS) == 2
    write(meters, 3)
    leave_gap(meters)

    for tables in (reader, open_tables(tmp_path)):
        assert tables.version(METERS) == 3
        assert [row["a"] for row in read(tables.scan(METERS))] == [1, 2, 3]
        assert tables.changes.read(METERS, 1, 3).num_rows == 3
        with tables._handles.reader(METERS).latest() as delta:
            assert delta.version() == 3
    assert open_tables(tmp_path).maintenance.compact(METERS) == 3


def test_a_checkpoint_is_written_although_a_listing_lacks_an_entry(meters: Tables) -> None:
    write(meters, 1, 2)
    write(meters, 3)
    leave_gap(meters)

    write_checkpoint(log_of(meters), 3)

    assert last_checkpoint(log_of(meters)) == 3


def test_a_reader_follows_commits_of_others_without_delta_rs(
    meters: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_tables(tmp_path)
    assert reader.rows(METERS) == 0
    write(meters, *range(1, 6), 3)
    meters.writer.delete(METERS, POWER, ranges=[(2, 2)])
    meters.maintenance.compact(METERS)
    with open_tables(tmp_path)._handles.reader(METERS).latest_snapshot() as opened:
        columns = [name for name in opened.files.column_names if name.startswith(("path", "size", "num", "min", "max"))]
    for name in ("load_as_version", "update_incremental"):
        monkeypatch.delattr(DeltaTable, name)

    with reader._handles.reader(METERS).latest_snapshot() as followed:
        assert followed.number == opened.number == 8
        assert in_order(followed.files, columns) == in_order(opened.files, columns)
    assert [row["a"] for row in read(reader.scan(METERS))] == [1, 3, 4, 5]


def in_order(files: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    return list(files.select(columns).sort_by("path").to_pylist())


def test_other_columns_are_noticed(meters: Tables, tmp_path: Path) -> None:
    reader = open_tables(tmp_path)
    write(meters, 1)
    assert reader.rows(METERS) == 1
    with meters._handles.writer(METERS).latest() as delta:
        delta.alter.add_columns(Field("c", PrimitiveType("long")))

    with reader._handles.reader(METERS).latest_snapshot() as newest:
        assert "c" in newest.schema.names


@pytest.mark.parametrize("number", [*range(10), 100])
def test_the_newest_version_is_found_by_name(meters: Tables, number: int) -> None:
    uri = log_of(meters)
    for version in range(1, number + 1):
        shutil.copy(log_file(uri, 0), log_file(uri, version))

    assert newest_version(uri) == number
    assert [newest_version(uri, known) for known in range(number + 1)] == [number] * (number + 1)


def test_it_is_found_after_a_checkpoint_whose_predecessors_are_gone(meters: Tables) -> None:
    write(meters, 1, 2, 3)
    with meters._handles.writer(METERS).latest() as delta:
        delta.create_checkpoint()
    write(meters, 4)
    for version in range(3):
        os.unlink(log_file(log_of(meters), version))

    assert newest_version(log_of(meters)) == 4


def test_a_table_without_a_log_has_no_newest_version(tmp_path: Path) -> None:
    assert newest_version(str(tmp_path)) is None


@pytest.mark.parametrize("gap", GAPS)
def test_a_listing_that_lacks_an_entry_is_repeated(gap: str) -> None:
    errors = [DeltaError(f"Kernel error: {gap}, but found gap"), DeltaError(gap)]

    def listed() -> str:
        if errors:
            raise errors.pop()
        return "complete"

    assert look_again(listed) == "complete"
    errors[:] = [DeltaError(gap)] * 10
    with pytest.raises(DeltaError, match=gap):
        look_again(listed)
    errors[:] = [DeltaError("damaged"), DeltaError("not asked again")]
    with pytest.raises(DeltaError, match="not asked again"):
        look_again(listed)
    assert len(errors) == 1
