"""Writing points of trees in place of others, against a model in plain Python, from memory and from data frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import FencedError
from headrace.model.tables import Column, Database
from headrace.model.trees import tree_table
from headrace.model.types import BIGINT
from headrace.storage import Tables
from headrace.storage.delta.points import ReplacedPoints
from headrace.storage.delta.pruning import Bounds
from headrace.storage.types import rows_schema
from tests.storage.samples import open_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TREE: Final = Database("root.plant")
TABLE: Final = replace(
    tree_table("root.plant"), columns=(tree_table("root.plant").columns[0], Column("a", BIGINT), Column("b", BIGINT))
)
SCHEMA: Final = rows_schema(TABLE, TREE)
DEVICES: Final = ("root.plant.d1", "root.plant.d2", "root.plant.d3")
FOLDERS: Final = count()

Points = dict[tuple[str, int], dict[str, int]]
POINTS: Final = st.dictionaries(
    st.tuples(st.sampled_from(DEVICES), st.integers(0, 9)),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3), min_size=1),
    max_size=15,
)


@dataclass(frozen=True)
class Scope:
    """Points that give way: columns of devices, at each `step`-th instant from `low` to `high`."""

    columns: dict[str, list[str]]
    low: int
    high: int
    step: int

    def to_replaced(self) -> ReplacedPoints:
        step, low = self.step, self.low
        columns = tuple((device, tuple(names)) for device, names in self.columns.items())
        return ReplacedPoints(columns, Bounds(self.low, self.high), lambda times: (np.asarray(times) - low) % step == 0)

    def includes(self, device: str, time: int, name: str) -> bool:
        at = self.low <= time <= self.high and (time - self.low) % self.step == 0
        return at and name in self.columns.get(device, ())


SCOPES: Final = st.builds(
    Scope,
    st.dictionaries(st.sampled_from(DEVICES), st.lists(st.sampled_from(["a", "b"]), min_size=1, unique=True), max_size=2),
    st.integers(0, 5),
    st.integers(4, 10),
    st.integers(1, 3),
)


def written(stored: Points, new: Points, scope: Scope | None) -> Points:
    """Return what the table has after a write."""
    result: Points = {key: dict(values) for key, values in stored.items()}
    for (device, time), values in result.items():
        for name in list(values):
            if scope is not None and scope.includes(device, time, name):
                del values[name]
    for key, values in new.items():
        result[key] = result.get(key, {}) | values
    return {key: values for key, values in result.items() if values}


def rows_of(points: Points) -> pa.Table:
    rows = [{"device": device, "time": time, **values} for (device, time), values in points.items()]
    return pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names} for row in rows], SCHEMA.remove_metadata())


def points_of(tables: Tables) -> Points:
    rows = tables.scan(TABLE)
    times = rows["time"].cast(pa.int64()).to_pylist()
    return {
        (row["device"], time): {name: row[name] for name in ("a", "b") if row[name] is not None}
        for row, time in zip(rows.to_pylist(), times, strict=True)
    }


def changed_keys(tables: Tables, version: int) -> set[tuple[str, int]]:
    if tables.version(TABLE) == version:
        return set()
    changes = tables.changes.read(TABLE, version + 1, tables.version(TABLE))
    return set(zip(changes["device"].to_pylist(), changes["time"].cast(pa.int64()).to_pylist(), strict=True))


@pytest.fixture
def homes(tmp_path: Path) -> Callable[[], Tables]:
    """A function that returns tables with an empty tree."""

    def create() -> Tables:
        tables = open_tables(tmp_path / str(next(FOLDERS)))
        tables.create(TABLE, TREE)
        return tables

    return create


SETTINGS: Final = settings(deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(stored=POINTS, new=POINTS, scope=st.none() | SCOPES, max_rows=st.integers(1, 4))
def test_points_replace_those_of_their_scope(
    homes: Callable[[], Tables], stored: Points, new: Points, scope: Scope | None, max_rows: int
) -> None:
    tables = homes()
    tables.writer.write_points(TABLE, TREE, rows_of(stored), max_rows=max_rows)
    version = tables.version(TABLE)
    tables.writer.write_points(TABLE, TREE, rows_of(new), None if scope is None else scope.to_replaced(), max_rows=max_rows)
    expected = written(stored, new, scope)
    assert points_of(tables) == expected
    assert tables.version(TABLE) <= version + 1
    if scope is not None:
        assert changed_keys(tables, version) == {key for key in {*stored, *expected} if stored.get(key) != expected.get(key)}


@pytest.mark.spark
@settings(SETTINGS, max_examples=12)
@given(stored=POINTS, new=POINTS, scope=st.none() | SCOPES, max_rows=st.integers(1, 4))
def test_a_data_frame_is_written_as_rows_in_memory_are(
    homes: Callable[[], Tables], spark: SparkSession, stored: Points, new: Points, scope: Scope | None, max_rows: int
) -> None:
    from_memory, from_frame = homes(), homes()
    for tables in (from_memory, from_frame):
        tables.writer.write_points(TABLE, TREE, rows_of(stored), max_rows=max_rows)
    version = from_memory.version(TABLE)
    replaced = None if scope is None else scope.to_replaced()
    from_memory.writer.write_points(TABLE, TREE, rows_of(new), replaced, max_rows=1000)
    from_frame.frames.write_points(TABLE, TREE, spark.createDataFrame(rows_of(new)), replaced, max_rows=max_rows)
    assert points_of(from_frame) == points_of(from_memory) == written(stored, new, scope)
    assert from_frame.version(TABLE) == from_memory.version(TABLE) <= version + 1
    assert changed_keys(from_frame, version) == changed_keys(from_memory, version)


@pytest.mark.spark
@pytest.mark.parametrize("scope", [None, Scope({DEVICES[0]: ["a"]}, 0, 5, 1)])
@pytest.mark.parametrize("stored", [{}, {(DEVICES[0], 2): {"a": 1}}])
def test_a_guard_that_does_not_hold_prevents_the_commit(
    homes: Callable[[], Tables], spark: SparkSession, stored: Points, scope: Scope | None
) -> None:
    tables = homes()
    tables.writer.write_points(TABLE, TREE, rows_of(stored), max_rows=10)
    version, folder = tables.version(TABLE), Path(tables.uri)
    files = set(folder.rglob("*.parquet"))

    def refuse() -> None:
        raise FencedError("taken over")

    new = spark.createDataFrame(rows_of({(DEVICES[0], time): {"a": time} for time in range(5)}))
    with pytest.raises(FencedError, match="taken over"):
        tables.frames.write_points(TABLE, TREE, new, None if scope is None else scope.to_replaced(), max_rows=2, check=refuse)
    assert (tables.version(TABLE), points_of(tables)) == (version, stored)
    assert set(folder.rglob("*.parquet")) == files
