"""Rows that were written again while updates are ignored, in windows that depend on the order of rows.

Such a row counts once more in the windows that it lies in. It moves none of their borders: in the source it is still one row.
Where it does move one, by another state or another START or END, it is no such row but one out of order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.plan import FIRST, ROWS, START, WEND, WSTART, CountWindow, EventWindow
from headrace.compute.windows import ATTRIBUTES, key_columns
from headrace.compute.windows.numbering import NUMBER
from headrace.streams.windows.changes import NEVER, Bools, Int64s, RowKind, to_numpy
from headrace.streams.windows.lateness import BatchSegments
from headrace.streams.windows.recalculation import Components
from headrace.streams.windows.row_matching import identities
from headrace.streams.windows.window_sql import segment_columns


def with_again(plan: Plan, segments: BatchSegments) -> BatchSegments:
    """Mark the rows that were written again and leave the borders of windows as they are."""
    if not (segments.kind == RowKind.REPLACED).any():
        return segments
    again = unmoved(plan, segments) & (is_in_a_window(segments) | begins_none(plan, segments))
    return replace(segments, kind=np.where(again, np.int8(RowKind.AGAIN), segments.kind))


def unmoved(plan: Plan, segments: BatchSegments) -> Bools:
    """Tell which new rows stand for a row that the same write replaced, with equal effect on borders."""
    attributes = [name for name in ATTRIBUTES.get(type(plan.window), ()) if name not in (FIRST, ROWS)]
    rows = segments.rows.append_column("_version", pa.array(segments.version))
    (identity,) = identities([rows], [*key_columns(plan), WSTART, "_version", *attributes])
    replaced = segments.kind == RowKind.REPLACED
    return np.asarray(segments.are(RowKind.INPUT) & np.isin(identity, identity[replaced]))


def is_in_a_window(segments: BatchSegments) -> Bools:
    """Tell which rows lie in a window in state, or come after a row of the batch with the same instant."""
    held = np.flatnonzero(segments.kind == RowKind.HELD)
    held = held[np.lexsort((segments.end[held], segments.start[held], segments.group[held]))]
    first, last = containing(segments.group[held], segments.start[held], segments.end[held], segments.group, segments.start)
    inputs = segments.are(RowKind.INPUT)
    _, place = np.unique(np.stack((segments.group, segments.start)), axis=1, return_inverse=True)
    place = place.reshape(-1)
    earliest = np.full(int(place.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(earliest, place[inputs], segments.version[inputs])
    return np.asarray((last > first) | (earliest[place] < segments.version))


def begins_none(plan: Plan, segments: BatchSegments) -> Bools:
    """Tell which rows of event windows open none: outside of a window they count nowhere."""
    if not isinstance(plan.window, EventWindow):
        return np.zeros(len(segments.start), np.bool_)
    return np.asarray(~to_numpy(segments.rows[START].fill_null(False)).astype(np.bool_))


def containing(group: Int64s, start: Int64s, end: Int64s, of: Int64s, instant: Int64s) -> tuple[Int64s, Int64s]:
    """For each instant the range of windows it lies in. Windows are in the order of group, start and end."""
    times, rank = np.unique(np.concatenate((start, end, instant)), return_inverse=True)
    starts, ends, instants = np.split(rank.reshape(-1), [len(start), 2 * len(start)])
    size = len(times) + 1
    first = np.searchsorted(group * size + ends, of * size + instants, "left")
    last = np.searchsorted(group * size + starts, of * size + instants, "right")
    return first.astype(np.int64), last.astype(np.int64)


def counted_again(segments: BatchSegments, found: Components) -> Int64s:
    """The rows to count once more: those of windows that were not recalculated with the row as it is stored."""
    at = found.again[found.of]
    kept = (at == NEVER) | (segments.version > at) | (segments.start < found.first[found.of])
    return np.flatnonzero(segments.are(RowKind.AGAIN) & kept)


def additions(plan: Plan, segments: BatchSegments, rows: Int64s, windows: pa.Table, also: Bools) -> tuple[pa.Table, Bools]:
    """Segments of the windows that these rows lie in, of some others (`also`), and of the rows; and which windows they are.

    Each segment has the number of its window.
    """
    added = segments.rows.take(pa.array(rows))
    own, of = identities([windows, added], key_columns(plan))
    start, end = to_numpy(windows[WSTART]).astype(np.int64), to_numpy(windows[WEND]).astype(np.int64)
    order = np.lexsort((end, start, own))
    first, last = containing(own[order], start[order], end[order], of, segments.start[rows])
    count = np.maximum(last - first, 0)
    place = order[np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)]
    number = numbers(plan, windows)
    touched = also.copy()
    touched[place] = True
    columns = list(segment_columns(plan))
    once_more = added.take(pa.array(np.repeat(np.arange(len(rows)), count))).select(columns)
    if isinstance(plan.window, CountWindow):
        once_more = once_more.set_column(columns.index(ROWS), ROWS, pa.array(np.zeros(len(place), np.int64)))
    parts = [
        windows.select(columns).filter(pa.array(touched)).append_column(NUMBER, pa.array(number[touched])),
        once_more.append_column(NUMBER, pa.array(number[place])),
    ]
    return pa.concat_tables(parts, promote_options="permissive"), touched


def numbers(plan: Plan, windows: pa.Table) -> Int64s:
    """Numbers that tell the windows of a partition apart; those that COUNT gives them."""
    if isinstance(plan.window, CountWindow):
        return to_numpy(windows[FIRST]).astype(np.int64) // plan.window.sliding
    return np.arange(windows.num_rows)
