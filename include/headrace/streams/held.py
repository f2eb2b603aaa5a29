"""The windows that a state holds: which of them a batch concerns, and which are still held after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WEND, WSTART
from headrace.compute.terms import quote
from headrace.model.streams import TriggerMode
from headrace.model.tables import TBNAME
from headrace.streams.define import StreamPlan
from headrace.streams.emission import CURRENT, flags, is_closed
from headrace.streams.frames import EMITTED, window_columns
from headrace.streams.incoming import Bools, Incoming, Int64s, array
from headrace.streams.state import State

MOST_CLOSED: Final = 20_000
"""Closed windows that are held so that late rows find them without a read of the source; twice the subtables where that is more."""


def candidates(plan: StreamPlan, state: State, batch: Incoming) -> tuple[pa.Table | None, pa.Table | None]:
    """Held windows that the batch may touch or close, and the others."""
    windows = state.windows
    if windows is None or windows.num_rows == 0:
        return None, None
    start, end = array(windows[WSTART]), array(windows[WEND])
    chosen = (start <= batch.ts.max()) & (end >= batch.ts.min())
    if (key := subtable_key(plan)) is not None:
        chosen &= flags(pc.is_in(windows[key], pc.unique(batch.rows[TBNAME])))
    written = batch.ts[batch.written]
    if plan.options.trigger is not TriggerMode.AT_ONCE and len(written):
        newest = written.max() if state.newest is None else max(written.max(), state.newest)
        chosen |= (end < newest - plan.watermark) & (array(windows[EMITTED]) != CURRENT)
    return windows.filter(pa.array(chosen)), windows.filter(pa.array(~chosen))


def subtable_key(plan: StreamPlan) -> str | None:
    """The group column that is the source's `tbname`, where the query is partitioned by it."""
    return next((key.column for key in plan.query.keys if key.sql == quote(TBNAME)), None)


def kept_windows(plan: StreamPlan, state: State, parts: Sequence[pa.Table | None]) -> State:
    """The state with these windows, but for closed ones beyond what is held; the floor tells where those lie."""
    columns = list(window_columns(plan.query))
    windows = [part.select(columns) for part in parts if part is not None and part.num_rows]
    if not windows:
        return State(**{**vars(state), "windows": None})
    held = pa.concat_tables(windows, promote_options="permissive").combine_chunks()
    most = max(MOST_CLOSED, 2 * state.seen.num_rows)
    closed = flags(is_closed(held, state.frontier(plan.watermark)))
    if closed.sum() <= most:
        return State(**{**vars(state), "windows": held})
    drop = oldest(closed, array(held[WEND]).astype(np.int64), int(closed.sum()) - most * 3 // 4)
    floor = int(array(held[WSTART])[drop].max())
    if state.floor is not None:
        floor = max(floor, state.floor)
    return State(**{**vars(state), "windows": held.filter(pa.array(~drop)), "floor": floor})


def oldest(closed: Bools, end: Int64s, count: int) -> Bools:
    """The `count` closed windows that ended first."""
    order = np.argsort(np.where(closed, end, np.iinfo(np.int64).max), kind="stable")
    found = np.zeros(len(end), np.bool_)
    found[order[:count]] = True
    return found


def identities(tables: Sequence[pa.Table], columns: Sequence[str]) -> list[Int64s]:
    """For each table numbers of its rows that are equal where the columns are, NULL being equal to NULL."""
    sizes = np.cumsum([table.num_rows for table in tables])[:-1]
    code = np.zeros(sum(table.num_rows for table in tables), np.int64)
    for name in columns:
        column = pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], type=tables[0][name].type)
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        code = code * (len(encoded.dictionary) + 1) + array(encoded.indices).astype(np.int64)
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    return np.split(code, sizes)


def without(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Those rows that have no equal among the others."""
    if rows.num_rows == 0 or others.num_rows == 0:
        return rows
    mine, theirs = identities([rows, others], columns)
    return rows.filter(pa.array(~np.isin(mine, theirs)))
