"""Rows that several writes of one micro-batch change: each value exists once, from its write until the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.streams.windows.change_batch import CHANGE, VERSION
from headrace.streams.windows.stored_rows import FROM, TO, with_versions
from tests.streams.environment import StreamEnvironment

ROW = pa.schema([("key", pa.int64()), ("value", pa.int64())])
CHANGED_ROW = pa.schema([*ROW, (CHANGE, pa.string()), (VERSION, pa.int64())])
STORED = st.dictionaries(st.integers(0, 3), st.integers(0, 9))
WRITES = st.lists(st.dictionaries(st.integers(0, 3), st.none() | st.integers(0, 9)), max_size=6)
SELECT = "select _wstart ws, count(*) n, sum(a) total from readings partition by tbname"


@pytest.mark.spark
@pytest.mark.parametrize("polled", [True, False], ids=["polled", "at-once"])
def test_a_late_row_between_two_writes_of_a_row_counts_that_row_once(env: StreamEnvironment, polled: bool) -> None:
    options = "trigger window_close watermark 3s ignore expired 1 ignore update 0"
    plan = env.create(f"create stream s {options} into o as {SELECT} state_window(b)")
    # The row at 1 s is late but not expired. The second write of the row at 0 s is expired, so only the first one counts.
    for instant, a in [(0, 1), (2000, 10), (1000, 100), (20_000, 0), (0, 5)]:
        env.insert([("d0", instant, a, "y" if instant == 20_000 else "x")])
        if polled:
            env.settle()
    env.settle()
    assert env.record(plan).reason is None
    assert [row[:3] for row in env.results(plan)] == [(0, 3, 111)]


@pytest.mark.spark
@pytest.mark.parametrize("polled", [True, False], ids=["polled", "at-once"])
def test_a_delete_between_two_writes_of_a_row_counts_each_write_once(env: StreamEnvironment, polled: bool) -> None:
    options = "trigger window_close watermark 3s ignore expired 0 ignore update 1"
    plan = env.create(f"create stream s {options} into o as {SELECT} interval(10s)")
    env.insert([("d0", 0, 1, "x"), ("d0", 1000, 10, "x")])
    if polled:
        env.settle()
    env.delete("d0", 1000, 1000)
    if polled:
        env.settle()
    env.insert([("d0", 0, 5, "x")])
    env.insert([("d0", 20_000, 0, "x")])
    env.settle()
    assert env.record(plan).reason is None
    assert [row[:3] for row in env.results(plan)] == [(0, 2, 6)]


@given(STORED, WRITES)
@example({0: 1}, [{0: 2}, {0: 3}, {0: None}, {0: 4}])
def test_the_rows_as_of_each_version_are_those_that_its_write_left(
    before: dict[int, int], writes: list[dict[int, int | None]]
) -> None:
    changes, rows_by_version = [], [before]
    for version, write in enumerate(writes, 1):
        old = rows_by_version[-1]
        changes += [change for key, value in write.items() for change in changes_of(key, old.get(key), value, version)]
        rows_by_version.append({key: value for key, value in (old | write).items() if value is not None})
    versioned = with_versions(to_table(rows_by_version[-1].items(), ROW), to_table(changes, CHANGED_ROW), ("key",)).to_pylist()
    as_of = [
        sorted((row["key"], row["value"]) for row in versioned if row[FROM] <= version <= row[TO])
        for version in range(len(rows_by_version))
    ]
    assert as_of == [sorted(rows.items()) for rows in rows_by_version]


def changes_of(key: int, old: int | None, new: int | None, version: int) -> list[tuple[int, int, str, int]]:
    """Return the changes that a write of a value makes; None stands for no row."""
    is_update = old is not None and new is not None
    images = [(old, "update_preimage" if is_update else "delete"), (new, "update_postimage" if is_update else "insert")]
    return [(key, value, change, version) for value, change in images if value is not None]


def to_table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
