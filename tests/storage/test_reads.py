from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.errors import NotFoundError, StorageError
from headrace.model.tables import TBNAME, Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage import Bounds, Tables
from tests.storage.samples import HOUR, METERS, POWER, START, TS, read, rows

NAMED = Table("power", "named", (TS, Column("name", DataType(TypeKind.VARCHAR, 20)), Column("a", DataType(TypeKind.INT))))


@pytest.fixture
def filled(meters: Tables) -> Tables:
    """Return tables with d1 and d2 at START in version 1, an hour later in version 2, d1's first row updated in version 3."""
    for later in (0, HOUR):
        meters.writer.write(METERS, POWER, rows([{"ts": START + later, "a": 1, TBNAME: name} for name in ("d1", "d2")]))
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 2}]))
    return meters


def microseconds(low: int, high: int) -> Bounds:
    return Bounds(low * 1000, high * 1000)


def test_a_scan_gives_the_columns_asked_for(filled: Tables) -> None:
    assert filled.scan(METERS, columns=["a", TBNAME]).column_names == ["a", TBNAME]


def test_a_scan_chooses_by_time_subtable_and_filter(filled: Tables) -> None:
    assert filled.scan(METERS, bounds=microseconds(START, START)).num_rows == 2
    assert filled.scan(METERS, tbnames=["d1"]).num_rows == 2
    assert filled.scan(METERS, tbnames=["d1"], bounds=microseconds(START, START), columns=["a"]).to_pylist() == [{"a": 2}]
    assert filled.scan(METERS, filter=pc.field("a") == 2, columns=["ts"]).num_rows == 1
    assert filled.scan(METERS, tbnames=[]).num_rows == 0


def test_a_scan_by_time_reads_no_file_of_other_times(filled: Tables) -> None:
    with filled._handles.reader(METERS).latest() as delta:
        files = pa.table(delta.get_add_actions(flatten=True)).sort_by("min.ts")
    (Path(filled.uri) / "power/meters/rows" / files["path"][0].as_py()).unlink()

    assert filled.scan(METERS, bounds=microseconds(START + HOUR, START + HOUR)).num_rows == 2
    with pytest.raises(StorageError):
        filled.scan(METERS)


def test_a_scan_reads_an_older_version(filled: Tables) -> None:
    assert [row["a"] for row in read(filled.scan(METERS, version=1))] == [1, 1]
    assert filled.scan(METERS, version=0).num_rows == 0
    with pytest.raises(StorageError, match=r"version 9 of table power\.meters"):
        filled.scan(METERS, version=9)


def test_text_is_compared_in_files_of_either_writer(tables: Tables) -> None:
    tables.create(NAMED, POWER)
    for a in (1, 2):
        tables.writer.write(NAMED, POWER, rows([{"ts": ts, "name": f"n{ts}", "a": a, TBNAME: f"d{ts}"} for ts in range(5)], NAMED))

    names = tables.scan(NAMED, tbnames=["d1", "d3"], filter=pc.field("name") >= "n2")
    assert read(names, NAMED) == [{"ts": 3, "name": "n3", "a": 2, TBNAME: "d3"}]


def test_bounds_and_count_come_from_statistics_and_are_never_too_narrow(filled: Tables) -> None:
    bounds = filled.bounds(METERS)

    assert bounds is not None
    assert bounds.low == START * 1000
    assert (START + HOUR) * 1000 <= bounds.high < (START + HOUR + 1) * 1000
    assert filled.rows(METERS) == 4


def test_an_empty_table_has_no_bounds_and_no_rows(meters: Tables) -> None:
    assert meters.bounds(METERS) is None
    assert meters.rows(METERS) == 0


@pytest.mark.parametrize("precision", [Precision.MICROSECOND, Precision.NANOSECOND])
def test_bounds_hold_parts_of_a_millisecond(tables: Tables, precision: Precision) -> None:
    database = Database("power", precision)
    tables.create(METERS, database)
    tables.writer.write(METERS, database, rows([{"ts": 1_000_500}, {"ts": 2_000_900}], database=database))
    bounds = tables.bounds(METERS)

    assert bounds is not None
    assert bounds.low <= 1_000_500
    assert bounds.high >= 2_000_900
    assert tables.scan(METERS, bounds=Bounds(2_000_900, 2_000_900)).num_rows == 1


def test_a_key_within_a_millisecond_is_found_again(tables: Tables) -> None:
    database = Database("power", Precision.MICROSECOND)
    tables.create(METERS, database)
    for a in (1, 2):
        tables.writer.write(METERS, database, rows([{"ts": 1_000_999, "a": a}], database=database))

    assert [row["a"] for row in read(tables.scan(METERS), database=database)] == [2]


def test_files_without_statistics_are_read_for_bounds_and_keys(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 5, "a": 1}]))
    log = Path(meters.uri) / "power/meters/rows/_delta_log/00000000000000000001.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = "{}"
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    again = Tables(meters.uri, meters.writer._lock, 1000)
    assert again.bounds(METERS) == Bounds(5000, 5000)
    assert again.rows(METERS) == 1
    assert again.writer.write(METERS, POWER, rows([{"ts": 5, "a": 2}])).updated == 1


def test_the_version_follows_commits_of_other_processes(meters: Tables) -> None:
    other = Tables(meters.uri, meters.writer._lock, 1000)
    assert meters.version(METERS) == other.version(METERS) == 0

    other.writer.write(METERS, POWER, rows([{"ts": 1}]))
    assert meters.version(METERS) == 1


def test_a_table_recreated_by_another_process_is_read_anew(meters: Tables) -> None:
    other = Tables(meters.uri, meters.writer._lock, 1000)
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    assert meters.rows(METERS) == 1

    other.drop(METERS)
    with pytest.raises(NotFoundError):
        meters.version(METERS)
    other.create(METERS, POWER)
    other.writer.write(METERS, POWER, rows([{"ts": 2, "a": 2}]))
    assert [row["ts"] for row in read(meters.scan(METERS))] == [2]
    assert meters.writer.write(METERS, POWER, rows([{"ts": 2, "a": 3}])).updated == 1
