"""Lateness: a write is compared with earlier writes only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.compute.plan import SERIES_KEY
from headrace.model.positions import Position
from headrace.streams.state.checkpoints import MAX_EVENT_TIMES, StreamState, event_times
from headrace.streams.windows.change_batch import (
    NEVER,
    ChangeBatch,
    RowKind,
    max_event_time_before,
    maybe_expired,
    running_maximum_before,
)

ROW = st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(-20, 20))


def batch(rows: list[tuple[str, int, int]], kind: RowKind = RowKind.INSERT) -> ChangeBatch:
    """Rows of (subtable, write, instant)."""
    return ChangeBatch(
        rows=pa.table({"tbname": pa.array([row[0] for row in rows], pa.string())}),
        series_key="tbname",
        kind=np.full(len(rows), kind, np.int8),
        version=np.array([row[1] for row in rows], np.int64),
        ts=np.array([row[2] for row in rows], np.int64),
    )


@given(st.lists(ROW, min_size=1, max_size=30))
def test_the_running_maximum_covers_smaller_versions_of_the_same_group(rows: list[tuple[int, int, int]]) -> None:
    group, version, value = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    expected = [max((v for g, w, v in rows if g == group_ and w < version_), default=NEVER) for group_, version_, _ in rows]
    assert running_maximum_before(group, version, value).tolist() == expected


def test_a_row_in_order_of_a_lagging_subtable_is_not_expired() -> None:
    state = StreamState(
        Position(0, {}),
        max_event_time_by_subtable=event_times(
            pa.table({SERIES_KEY: ["a", "b"], "_max_event_time": [100, 10]}, schema=MAX_EVENT_TIMES)
        ),
        max_event_time=100,
    )
    assert maybe_expired(batch([("b", 1, 11)]), state, 0).tolist() == [False]
    assert maybe_expired(batch([("b", 1, 9)]), state, 0).tolist() == [True]


def test_a_row_within_the_watermark_delay_is_not_expired() -> None:
    state = StreamState(
        Position(0, {}),
        max_event_time_by_subtable=event_times(pa.table({SERIES_KEY: ["a"], "_max_event_time": [100]}, schema=MAX_EVENT_TIMES)),
        max_event_time=100,
    )
    assert maybe_expired(batch([("a", 1, 90)]), state, 10).tolist() == [False]
    assert maybe_expired(batch([("a", 1, 89)]), state, 10).tolist() == [True]


def test_rows_of_one_write_are_never_late_against_each_other() -> None:
    assert maybe_expired(batch([("a", 1, 100), ("a", 1, 1)]), StreamState(Position(0, {})), 0).tolist() == [False, False]
    assert maybe_expired(batch([("a", 1, 100), ("a", 2, 1)]), StreamState(Position(0, {})), 0).tolist() == [False, True]


def test_deleted_rows_do_not_advance_event_time() -> None:
    rows = batch([("a", 1, 100)], RowKind.DELETE)
    assert max_event_time_before(batch([("a", 2, 1)]), None).tolist() == [NEVER]
    assert maybe_expired(rows, StreamState(Position(0, {}), max_event_time=500), 0).tolist() == [False]
