"""Rows that are written again while updates are ignored, in windows that depend on the order of rows.

Such a rewritten row counts once more in the windows that it lies in. It moves none of their borders, since it is still one row
of the source. A row that moves a border, by another state or another START or END, is not one of these but a row out of order, and
the row that it replaces is deleted, since it may have been in another group.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.columnar.runs import combined, renumbered
from headrace.compute.plan import IS_START, ROW_COUNT, WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.compute.windows.numbering import WINDOW_NUMBER
from headrace.model.windows import copies
from headrace.storage.row_matching import row_ids
from headrace.streams.windows.change_batch import NEVER, Bools, Int64s, RowKind, to_numpy
from headrace.streams.windows.lateness import BatchSegments
from headrace.streams.windows.recalculation import RecalculationScopes
from headrace.streams.windows.window_sql import segment_columns


def mark_rewritten(plan: Plan, segments: BatchSegments) -> BatchSegments:
    if not (segments.kind == RowKind.REPLACED).any():
        return segments
    is_rewritten = keeps_borders(plan, segments) & (is_in_window(segments) | starts_no_window(segments))
    kind = np.where(is_rewritten, np.int8(RowKind.REWRITTEN), segments.kind)
    return replace(segments, kind=np.where(moves_borders(plan, segments), np.int8(RowKind.DELETE), kind))


def moves_borders(plan: Plan, segments: BatchSegments) -> Bools:
    """Return a mask of the replaced rows whose new version has other effects on borders, or does not pass WHERE."""
    if not plan.kind.row_columns:
        return np.zeros(len(segments.start), np.bool_)
    key = plan.grouped_series
    row_id = row_numbers(plan, segments, [] if key is None else [key.column])
    stays = np.isin(row_id, row_id[segments.is_kind(RowKind.INSERT)])
    return np.asarray(segments.is_kind(RowKind.REPLACED) & ~stays)


def row_numbers(plan: Plan, segments: BatchSegments, keys: list[str]) -> Int64s:
    """Return numbers that are equal for rows of the same write with equal keys, instants and effect on borders."""
    rows = segments.rows.append_column("_version", pa.array(segments.version))
    return row_ids([rows], [*keys, WSTART, "_version", *plan.kind.row_columns])[0]


def keeps_borders(plan: Plan, segments: BatchSegments) -> Bools:
    """Return a mask of the new rows that replace a row of the same write with equal effect on borders."""
    row_id, replaced = row_numbers(plan, segments, key_columns(plan)), segments.kind == RowKind.REPLACED
    return np.asarray(segments.is_kind(RowKind.INSERT) & np.isin(row_id, row_id[replaced]))


def is_in_window(segments: BatchSegments) -> Bools:
    """Return a mask of the rows that lie in a window in state, or follow a row of the batch at the same instant."""
    in_state = np.flatnonzero(segments.kind == RowKind.IN_STATE)
    in_state = in_state[np.lexsort((segments.end[in_state], segments.start[in_state], segments.group[in_state]))]
    first, last = find_windows(
        segments.group[in_state], segments.start[in_state], segments.end[in_state], segments.group, segments.start
    )
    inserts = segments.is_kind(RowKind.INSERT)
    instant, _ = renumbered(combined([segments.group, segments.start], len(segments.start)))
    earliest = np.full(int(instant.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(earliest, instant[inserts], segments.version[inserts])
    return np.asarray((last > first) | (earliest[instant] < segments.version))


def starts_no_window(segments: BatchSegments) -> Bools:
    """Return a mask of the rows that start no event window: outside of windows they count nowhere."""
    if IS_START not in segments.rows.column_names:
        return np.zeros(len(segments.start), np.bool_)
    return np.asarray(~to_numpy(segments.rows[IS_START].fill_null(False)).astype(np.bool_))


def find_windows(group: Int64s, start: Int64s, end: Int64s, instant_group: Int64s, instant: Int64s) -> tuple[Int64s, Int64s]:
    """Return for each instant the range of windows it lies in. Windows must be ordered by group, start and end."""
    times, rank = np.unique(np.concatenate((start, end, instant)), return_inverse=True)
    starts, ends, instants = np.split(rank.reshape(-1), [len(start), 2 * len(start)])
    size = len(times) + 1
    first = np.searchsorted(group * size + ends, instant_group * size + instants, "left")
    last = np.searchsorted(group * size + starts, instant_group * size + instants, "right")
    return first.astype(np.int64), last.astype(np.int64)


def rows_to_add(segments: BatchSegments, scopes: RecalculationScopes) -> Int64s:
    """Return the indexes of rows to count once more: those of windows that were not recalculated with the row as stored."""
    recalculated_at = scopes.recalculated_at[scopes.of_segment]
    is_missing = (
        (recalculated_at == NEVER) | (segments.version > recalculated_at) | (segments.start < scopes.first[scopes.of_segment])
    )
    return np.flatnonzero(segments.is_kind(RowKind.REWRITTEN) & is_missing)


def segments_to_add(
    plan: Plan, segments: BatchSegments, rows: Int64s, windows: pa.Table, included: Bools
) -> tuple[pa.Table, Bools]:
    """Return the segments to merge for rewritten rows, and which windows they belong to.

    The segments are those of the windows that the rows lie in, of the windows in `included`, and of the rows, each with
    the number of its window.
    """
    added = segments.rows.take(pa.array(rows))
    window_group, row_group = row_ids([windows, added], key_columns(plan))
    start, end = to_numpy(windows[WSTART]).astype(np.int64), to_numpy(windows[WEND]).astype(np.int64)
    order = np.lexsort((end, start, window_group))
    first, last = find_windows(window_group[order], start[order], end[order], row_group, segments.start[rows])
    row, within = copies(np.maximum(last - first, 0))
    window = order[first[row] + within]
    touched = included.copy()
    touched[window] = True
    columns = list(segment_columns(plan))
    once_more = added.take(pa.array(row)).select(columns)
    if ROW_COUNT in columns:
        once_more = once_more.set_column(columns.index(ROW_COUNT), ROW_COUNT, pa.array(np.zeros(len(window), np.int64)))
    parts = [
        windows.select(columns).filter(pa.array(touched)).append_column(WINDOW_NUMBER, pa.array(np.flatnonzero(touched))),
        once_more.append_column(WINDOW_NUMBER, pa.array(window)),
    ]
    return pa.concat_tables(parts, promote_options="permissive"), touched
