"""Rows that several writes of one micro-batch change: each value exists once, from its write until the next."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.streams.windows.versioned_rows import ALL_VERSIONS, with_versions
from tests.streams.environment import StreamEnvironment

BEGINNING, END = ALL_VERSIONS
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


def test_each_value_of_a_row_exists_once() -> None:
    changes = [
        ("x", 1, "update_preimage", 1),
        ("x", 2, "update_postimage", 1),
        ("x", 2, "update_preimage", 2),
        ("x", 3, "update_postimage", 2),
        ("y", 5, "insert", 1),
        ("y", 5, "delete", 3),
        ("y", 6, "insert", 5),
        ("y", 6, "delete", 6),
    ]
    key, a, change, version = (pa.array(column) for column in zip(*changes, strict=True))
    changed = pa.table({"key": key, "a": a, "_change_type": change, "_commit_version": version})
    stored = pa.table({"key": ["x", "z"], "a": [3, 9]})
    rows = [tuple(row.values()) for row in with_versions(stored, changed, ("key",)).to_pylist()]
    assert sorted(rows) == [
        ("x", 1, BEGINNING, 0),
        ("x", 2, 1, 1),
        ("x", 3, 2, END),
        ("y", 5, 1, 2),
        ("y", 6, 5, 5),
        ("z", 9, BEGINNING, END),
    ]
