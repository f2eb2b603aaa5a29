"""Shares of a table have each of its rows once, ordered by series and time, however its files were written."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import NotSupportedError
from headrace.model.tables import TBNAME, Column, Table
from headrace.model.types import DataType, TypeKind
from headrace.model.windows import WindowGrid
from headrace.storage import Tables
from headrace.storage.delta import share_planning, shares, staged_files
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.shares import SeriesRange, Share
from tests.storage.samples import METERS, POWER, START, open_tables, rows

LONG = "m" * 70
NAMES = ("a", "d1", "d2", LONG + "1", LONG + "2", "é", "𐏿", "\uffff")
READING = st.tuples(st.sampled_from(NAMES), st.integers(-5, 60), st.none() | st.integers(-3, 3))
COMMITS = st.lists(st.lists(READING, min_size=1, max_size=30), min_size=1, max_size=6)
COLUMNS = [TBNAME, "ts", "a", "site"]


def write(tables: Tables, readings: list[tuple[str, int, int | None]], table: Table = METERS) -> None:
    unique = {(name, at): a for name, at, a in readings}
    tables.writer.write(table, POWER, rows([{TBNAME: name, "ts": START + at, "a": a} for (name, at), a in unique.items()], table))


def read_all(parts: list[Share], columns: list[str] | None = None) -> list[list[dict[str, Any]]]:
    """Read shares after they were sent to a worker: the rows of each."""
    sent = pickle.loads(pickle.dumps(parts))
    return [[row for batch in part.read(columns or COLUMNS) for row in batch.to_pylist()] for part in sent]


def expected(tables: Tables, bounds: Bounds | None = None, series: SeriesRange = shares.ALL_SERIES) -> list[dict[str, Any]]:
    """Return all rows with their tag, in order."""
    stored = tables.scan(METERS, columns=["ts", "a", TBNAME], bounds=bounds).to_pylist()
    sites = {row[TBNAME]: row["site"] for row in tables.tags.read(METERS).to_pylist()}
    chosen = [row | {"site": sites.get(row[TBNAME])} for row in stored if series.overlaps(row[TBNAME], row[TBNAME])]
    return in_order(chosen)


def divide_by_windows_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide tables by windows even if that takes longer than by series."""
    monkeypatch.setattr(share_planning, "MIN_WINDOW_ROWS", 0)
    monkeypatch.setattr(share_planning, "MAX_SLOWDOWN", math.inf)


def stored(row: dict[str, Any]) -> int:
    """Return the stored timestamp of a row."""
    return int(pa.scalar(row["ts"], pa.timestamp("us", "UTC")).cast(pa.int64()).as_py())


def in_order(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda row: (row[TBNAME].encode(), row["ts"]))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    commits=COMMITS,
    compacted=st.integers(0, 6),
    tasks=st.integers(1, 4),
    limits=st.none() | st.tuples(st.integers(-5, 60), st.integers(0, 40)),
    first=st.none() | st.sampled_from(NAMES),
    group_rows=st.sampled_from([3, 1000]),
    windows=st.builds(lambda step, offset: WindowGrid(step * 1000, offset * 1000), st.integers(1, 30), st.integers(0, 29)),
)
def test_shares_have_each_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    commits: list[list[tuple[str, int, int | None]]],
    compacted: int,
    tasks: int,
    limits: tuple[int, int] | None,
    first: str | None,
    group_rows: int,
    windows: WindowGrid,
) -> None:
    monkeypatch.setattr(staged_files, "ROW_GROUP_ROWS", group_rows)
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 7)
    monkeypatch.setattr(share_planning, "MAX_READS", 1e9)
    divide_by_windows_always(monkeypatch)
    monkeypatch.setattr(shares, "SLICE_ROWS", 5)
    tables = open_tables(tmp_path_factory.mktemp("shares"))
    tables.create(METERS, POWER)
    tables.tags.upsert(METERS, pa.table({TBNAME: ["a", "d2"], "site": pa.array([4, 5], pa.int32())}))
    for number, commit in enumerate(commits):
        write(tables, commit)
        if number + 1 == compacted:
            tables.maintenance.compact(METERS)
    bounds = None if limits is None else Bounds((START + limits[0]) * 1000, (START + limits[0] + limits[1]) * 1000)
    series = SeriesRange(first)
    by_series = tables.shares(METERS, COLUMNS, tasks, bounds=bounds, series=series)
    read = read_all(by_series)
    # One share after the other, all rows are in order.
    assert [row for share in read for row in share] == expected(tables, bounds, series)
    by_files = read_all(tables.shares(METERS, COLUMNS, tasks, bounds=bounds, series=series, by_series=False))
    assert in_order([row for share in by_files for row in share]) == expected(tables, bounds, series)
    for of_series in (False, True):
        parts = tables.shares(METERS, COLUMNS, tasks, bounds=bounds, series=series, by_series=of_series, windows=windows)
        read = read_all(parts)
        assert in_order([row for share in read for row in share]) == expected(tables, bounds, series)
        owned = [{(row[TBNAME] if of_series else None, windows.floor(stored(row))) for row in share} for share in read]
        assert sum(map(len, owned)) == len(set().union(*owned))
        names = [row[TBNAME].encode() for share in read for row in in_order(share)]
        assert names == sorted(names) or not any(part.by_series for part in parts)


def test_windows_of_series_are_divided_by_series_if_files_are(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 50)
    monkeypatch.setattr(staged_files, "ROW_GROUP_ROWS", 25)
    windows = WindowGrid(10_000, START * 1000)
    for start in (0, 50):
        write(meters, [(name, start + at, at) for at in range(50) for name in ("d1", "d2")])
    meters.maintenance.compact(METERS)
    parts = meters.shares(METERS, COLUMNS, 2, windows=windows)
    assert [part.by_series for part in parts] == [True, True]
    assert [{row[TBNAME] for row in share} for share in read_all(parts)] == [{"d1"}, {"d2"}]
    assert not any(part.by_series for part in meters.shares(METERS, COLUMNS, 2, by_series=False, windows=windows))


def test_windows_are_divided_evenly_and_files_are_read_once(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 50)
    for start in range(0, 200, 25):
        write(meters, [(name, start + at, at) for at in range(25) for name in ("d1", "d2")])
    parts = meters.shares(METERS, COLUMNS, 2, by_series=False, windows=WindowGrid(5_000, START * 1000))
    assert [len(share) for share in read_all(parts)] == [50] * 8
    assert [len(share.parts) for share in parts] == [1] * 8


@pytest.mark.parametrize(
    ("step", "message"),
    [(1000, "windows have few rows"), (1_000_000, "windows are long")],
)
def test_windows_that_are_no_use_for_division_are_refused(
    meters: Tables, monkeypatch: pytest.MonkeyPatch, step: int, message: str
) -> None:
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 50)
    write(meters, [("d1", at, at) for at in range(100)])
    with pytest.raises(NotSupportedError, match=message):
        meters.shares(METERS, COLUMNS, 2, by_series=False, windows=WindowGrid(step, 0))


def test_files_that_each_have_all_times_are_not_divided_by_windows(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 50)
    for first in range(4):
        write(meters, [("d1", at * 4 + first, at) for at in range(100)])
    with pytest.raises(NotSupportedError, match="not ordered by time"):
        meters.shares(METERS, COLUMNS, 4, by_series=False, windows=WindowGrid(20_000, 0))


def test_a_batch_has_whole_series_and_its_keys_as_a_dictionary(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SLICE_ROWS", 10)
    for start in (0, 100):
        write(meters, [(name, start + at, at) for name in ("d1", "d2", "d3", "d4") for at in range(6)])
    (share,) = meters.shares(METERS, COLUMNS, 1)
    batches = list(share.read([TBNAME, "ts"]))
    assert [pc.unique(batch[TBNAME]).to_pylist() for batch in batches] == [["d1"], ["d2"], ["d3"], ["d4"]]
    assert all(pa.types.is_dictionary(batch.schema.field(TBNAME).type) for batch in batches)
    assert {batch.schema.names[0] for batch in batches} == {TBNAME}


def test_a_share_reads_only_row_groups_that_may_have_its_rows(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 20)
    for start in (0, 10):
        write(meters, [(f"d{number}", start + at, at) for number in range(8) for at in range(5)])
    meters.maintenance.compact(METERS)
    parts = meters.shares(METERS, COLUMNS, 2)
    assert [[part.groups for part in share.parts] for share in parts] == [[(0, 1)], [(2, 3)], [(4, 5)], [(6, 7)]]
    early = meters.shares(METERS, COLUMNS, 2, series=SeriesRange("d3", "d3\0"))
    assert [[part.groups for part in share.parts] for share in early] == [[(3,)]]


def test_the_series_key_is_read_only_if_something_depends_on_it(meters: Tables) -> None:
    write(meters, [("d2", 1, 1), ("d1", 2, 2)])
    (share,) = meters.shares(METERS, ["a"], 1, by_series=False)
    assert share.schema.names[-1] == TBNAME
    without = replace(share, schema=share.schema.remove(3))
    assert [batch["a"].to_pylist() for batch in without.read(["a"])] == [[1, 2]]
    assert [batch["a"].to_pylist() for batch in share.read(["a", TBNAME])] == [[2, 1]]


def test_columns_of_older_files_are_null_and_older_versions_are_read(meters: Tables) -> None:
    write(meters, [("d1", 1, 1)])
    version = meters.version(METERS)
    added = Column("c", DataType(TypeKind.VARCHAR, 10))
    meters.columns.add(METERS, POWER, [added])
    wide = Table("power", "meters", (*METERS.columns, added), METERS.tags)
    meters.writer.write(wide, POWER, rows([{"ts": START + 2, "a": 2, "c": "x"}], wide))
    assert read_all(meters.shares(wide, ["a", "c"], 1), ["a", "c"]) == [[{"a": 1, "c": None}, {"a": 2, "c": "x"}]]
    assert read_all(meters.shares(wide, ["a", "c"], 1, version=version), ["a", "c"]) == [[{"a": 1, "c": None}]]


def test_an_empty_table_has_no_shares_of_rows(meters: Tables) -> None:
    assert [row for share in read_all(meters.shares(METERS, COLUMNS, 2)) for row in share] == []
    assert meters.shares(METERS, COLUMNS, 2, by_series=False) == []


def test_tables_that_cannot_be_divided_are_refused(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    meters.tags.upsert(METERS, pa.table({TBNAME: ["d1", "d2", "d3"], "site": pa.array([1, 2, 3], pa.int32())}))
    for at in range(4):
        write(meters, [("d1", at, 1), ("d2", at, 1), ("d3", at, 1)])
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 2)
    monkeypatch.setattr(share_planning, "MAX_ROWS", 3)
    with pytest.raises(NotSupportedError, match="a series has about 4 rows"):
        meters.shares(METERS, COLUMNS, 1)
    monkeypatch.setattr(share_planning, "MAX_READS", 1.5)
    with pytest.raises(NotSupportedError, match="not ordered by series"):
        meters.shares(METERS, COLUMNS, 2)
    assert sum(map(len, read_all(meters.shares(METERS, COLUMNS, 2, by_series=False)))) == 12


def test_rows_of_foreign_writers_without_a_series_are_refused(meters: Tables) -> None:
    nameless = rows([{"ts": START, "a": 1}]).set_column(2, pa.field(TBNAME, pa.string()), pa.array([None], pa.string()))
    write_deltalake(meters._handles.reader(METERS).uri, nameless, mode="append", schema_mode="merge")
    with pytest.raises(NotSupportedError, match="without a series"):
        meters.shares(METERS, COLUMNS, 1)


@pytest.mark.parametrize("int96", [False, True])
def test_files_of_other_writers_are_read_in_the_stored_types(meters: Tables, int96: bool) -> None:
    write(meters, [("d2", 5, 1)])
    uri = meters._handles.reader(METERS).uri
    write_deltalake(uri, rows([{"ts": START + 1, "a": 7}]), mode="append", schema_mode="merge")
    path = next(path for path in DeltaTable(uri).file_uris() if pq.read_table(path)["a"].to_pylist() == [7])
    times = pa.array([(START + 1) * 1_000_000], pa.timestamp("ns", "UTC"))
    foreign = pa.table({"ts": times, "a": pa.array([7], pa.int32()), TBNAME: pa.array(["d1"], pa.large_string())})
    pq.write_table(foreign, path, use_deprecated_int96_timestamps=int96)
    if int96:
        # Such timestamps have no statistics.
        with pytest.raises(NotSupportedError, match="without a series or timestamp"):
            meters.shares(METERS, COLUMNS, 1)
        return
    bounds = Bounds(0, (START + 5) * 1000)
    (batch,) = [batch for share in meters.shares(METERS, COLUMNS, 1, bounds=bounds) for batch in share.read([TBNAME, "ts", "a"])]
    assert batch["a"].to_pylist() == [7, 1]
    assert batch.schema.field("ts").type == pa.timestamp("us", "UTC")
