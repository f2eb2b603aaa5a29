"""Which rows count in which windows, where that is not plain: late rows, and windows that have to be evaluated again.

Everything here is arithmetic over one segment for each (row, window), so it needs no Spark. Writes are judged one by one, as if
each had been a batch of its own: how writes are cut into batches makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.compute.plan import WEND, WSTART
from headrace.streams import frames
from headrace.streams.counting import Count, count_of
from headrace.streams.define import StreamPlan
from headrace.streams.held import identities
from headrace.streams.incoming import NEVER, REPAIRS, Bools, Incoming, Int64s, Kind, array, frontiers
from headrace.streams.state import State

NO_WRITE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Stored:
    """Stored rows, and the first and last version in which each was what it is."""

    rows: pa.Table
    first: Int64s
    last: Int64s

    @classmethod
    def none(cls, like: pa.Table) -> Stored:
        empty = np.zeros(0, np.int64)
        return cls(like.slice(0, 0), empty, empty)


@dataclass(frozen=True)
class Verdict:
    """Segments to merge; windows that were evaluated again and have no rows left; how many were; what became of the rows."""

    segments: pa.Table
    vanished: pa.Table
    repaired: int
    count: Count


@dataclass(frozen=True)
class Segments:
    """Numbers of one segment for each (row, window), held windows last: `row` is -1 for those. `window` tells windows apart."""

    row: Int64s
    window: Int64s
    start: Int64s
    end: Int64s
    windows: int

    @property
    def held(self) -> Bools:
        return np.asarray(self.row < 0)


def judged(plan: StreamPlan, batch: Incoming, state: State, found: pa.Table, chosen: pa.Table | None, stored: Stored) -> Verdict:
    """Judge the segments `found` of a batch's rows (first) and of stored rows (after them), and the windows held.

    A window is evaluated again at the last write that took one of its rows away or changed one; one that is not held and may
    have stored rows (it starts at or before the floor), at the first write that touches it. What it held at that write comes
    from the stored rows, what came later from the batch.
    """
    everything = with_held(plan, found, chosen)
    segments = numbers(plan, everything)
    kind = np.concatenate((batch.kind, np.full(stored.rows.num_rows, Kind.STORED, np.int8), [Kind.HELD])).astype(np.int8)
    version = np.concatenate((batch.version, np.full(stored.rows.num_rows + 1, NEVER)))
    passing = np.zeros(len(batch.ts), np.bool_)
    passing[segments.row[(segments.row >= 0) & (segments.row < len(passing))]] = True
    expired = late_segments(plan, batch, state, passing, segments)
    kinds, versions = kind[segments.row], version[segments.row]
    again = evaluated_again(segments, kinds, versions, expired, state.floor)
    at = again[segments.window]
    accepted = accepted_segments(batch, stored, segments, kinds, versions, expired, at)
    return Verdict(
        segments=marked(plan, everything, at != NEVER).filter(pa.array(accepted)),
        vanished=vanished(plan, everything, segments, accepted, at),
        repaired=int((again != NEVER).sum()),
        count=rows_count(plan, batch, state, passing, segments, expired),
    )


def with_held(plan: StreamPlan, found: pa.Table, chosen: pa.Table | None) -> pa.Table:
    """Segments of rows, then held windows as segments."""
    columns = [*frames.segment_columns(plan.query), frames.ROW]
    if chosen is None or chosen.num_rows == 0:
        return found.select(columns)
    size = chosen.num_rows
    empty = {
        frames.ADDED: pa.repeat(pa.scalar(0, pa.int64()), size),
        frames.USED: pa.repeat(pa.scalar(0, pa.int64()), size),
        frames.LATEST: pa.nulls(size, pa.int64()),
        frames.DIRTY: pa.repeat(pa.scalar(False), size),
        frames.WAS_HELD: pa.repeat(pa.scalar(True), size),
        frames.ROW: pa.repeat(pa.scalar(-1, pa.int64()), size),
    }
    held = pa.table({**{name: chosen[name] for name in chosen.column_names}, **empty})
    return pa.concat_tables([found.select(columns), held.select(columns)], promote_options="permissive")


def numbers(plan: StreamPlan, everything: pa.Table) -> Segments:
    (identity,) = identities([everything], [*(key.column for key in plan.query.keys), WSTART])
    names, window = np.unique(identity, return_inverse=True)
    return Segments(
        row=array(everything[frames.ROW]).astype(np.int64),
        window=window.astype(np.int64),
        start=array(everything[WSTART]).astype(np.int64),
        end=array(everything[WEND]).astype(np.int64),
        windows=len(names),
    )


def late_segments(plan: StreamPlan, batch: Incoming, state: State, passing: Bools, segments: Segments) -> Bools:
    """Segments of rows that came too late for their window: it was closed, and their subtable had gone on, before their write."""
    if not plan.options.ignore_expired:
        return np.zeros(len(segments.row), np.bool_)
    frontier = np.append(frontiers(batch, state, plan.watermark, passing), NEVER)
    row = np.where((segments.row >= 0) & (segments.row < len(passing)), segments.row, len(passing))
    return np.asarray(segments.end < frontier[row])


def evaluated_again(segments: Segments, kind: np.ndarray, version: Int64s, expired: Bools, floor: int | None) -> Int64s:
    """For each window the write at which it is evaluated again; `NEVER` for those that are not."""
    marked = np.full(segments.windows, NEVER)
    repairs = np.isin(kind, REPAIRS) & ~expired
    np.maximum.at(marked, segments.window[repairs], version[repairs])
    if floor is None:
        return marked
    touched = np.full(segments.windows, NO_WRITE)
    inputs = (kind == Kind.INPUT) & ~expired
    np.minimum.at(touched, segments.window[inputs], version[inputs])
    known = np.zeros(segments.windows, np.bool_)
    known[segments.window[segments.held | (segments.start > floor)]] = True
    return np.where((marked == NEVER) & ~known & (touched != NO_WRITE), touched, marked)


def accepted_segments(
    batch: Incoming, stored: Stored, segments: Segments, kind: np.ndarray, version: Int64s, expired: Bools, at: Int64s
) -> Bools:
    """Segments that count: new rows in time that came after their window was evaluated, the rows that it then had, held windows."""
    plain = at == NEVER
    inputs = (kind == Kind.INPUT) & ~expired & (plain | (version > at))
    place = np.clip(segments.row - len(batch.ts), 0, None)
    there = np.zeros(len(at), np.bool_)
    if len(stored.first):
        place = np.minimum(place, len(stored.first) - 1)
        there = (kind == Kind.STORED) & ~plain & (stored.first[place] <= at) & (at <= stored.last[place])
    return np.asarray(inputs | there | (segments.held & plain))


def marked(plan: StreamPlan, everything: pa.Table, dirty: Bools) -> pa.Table:
    """Segments as they are merged, with whether their window was evaluated again."""
    place = everything.schema.get_field_index(frames.DIRTY)
    return everything.set_column(place, frames.DIRTY, pa.array(dirty)).select(list(frames.segment_columns(plan.query)))


def vanished(plan: StreamPlan, everything: pa.Table, segments: Segments, accepted: Bools, at: Int64s) -> pa.Table:
    """Windows that were evaluated again and have no rows: keys, ends, and what the target has of them."""
    there = np.zeros(segments.windows, np.bool_)
    there[segments.window[accepted]] = True
    gone = (at != NEVER) & ~there[segments.window]
    # A held window comes last of its segments; it knows what the target has.
    order = np.flatnonzero(gone)[::-1]
    _, first = np.unique(segments.window[order], return_index=True)
    columns = [*(key.column for key in plan.query.keys), WSTART, WEND, frames.EMITTED]
    return everything.select(columns).take(pa.array(order[first]))


def rows_count(plan: StreamPlan, batch: Incoming, state: State, passing: Bools, segments: Segments, expired: Bools) -> Count:
    """Count a batch: a row has expired when the latest of its windows was closed to it."""
    own = (segments.row >= 0) & (segments.row < len(passing))
    open_ = np.zeros(len(passing), np.bool_)
    open_[segments.row[own & ~expired]] = True
    written = batch.written & passing
    return count_of(plan, batch, state, written & open_, written & ~open_)
