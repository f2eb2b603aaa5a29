"""Tags of rows that a stream with IGNORE UPDATE 1 counted before the tags of their subtables changed: they stay in their groups.

Corrections and deletes of these rows are ignored and counted, since the row would be in two groups otherwise. Rows that are new get
the present tags. A row was counted if it is up to the newest one that its subtable had when its tags changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.streams.batches import BatchResult, Processor
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import source_pieces
from headrace.streams.sources.tags import RetaggedSubtables
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.change_batch import CHANGE, Changes, Int64s, LargeCommit, to_ticks

UNTIL: Final = "_until"
"""The newest time of a subtable, in ticks, when its tags changed."""


@dataclass(frozen=True)
class EarlierTags:
    """Tags that rows of subtables had up to some times, ordered by subtable and time: the series key, `UNTIL` and the tags."""

    plan: StreamPlan
    tags: pa.Table

    def find(self, rows: pa.Table) -> Int64s:
        """Return for each row the number of its earlier tags; -1 if it has the present ones."""
        key = self.plan.source.series_key
        names = self.tags[key].unique()
        series = pc.fill_null(pc.index_in(rows[key].cast(pa.string()), names), -1).to_numpy()
        found = np.full(rows.num_rows, -1)
        entry_series, until = pc.index_in(self.tags[key], names).to_numpy(), self.tags[UNTIL].to_numpy()
        ticks = to_ticks(rows[self.plan.source.timestamp.name], self.plan.query.precision)
        for one in np.unique(series[series >= 0]):
            own, entries = np.flatnonzero(series == one), np.flatnonzero(entry_series == one)
            index = np.searchsorted(until[entries], ticks[own])
            is_earlier = index < len(entries)
            found[own[is_earlier]] = entries[index[is_earlier]]
        return found

    def restore(self, rows: pa.Table) -> pa.Table:
        """Return stored rows with the tags by which they were counted."""
        found = self.find(rows)
        if not (found >= 0).any():
            return rows
        number = pa.array(found, mask=found < 0)
        for name in self.plan.scan.tags:
            index = rows.schema.get_field_index(name)
            values = pc.if_else(pc.is_valid(number), pc.take(self.tags[name], number), rows[name])
            rows = rows.set_column(index, rows.schema.field(index), values)
        return rows

    def is_ignored(self, changes: pa.Table) -> pa.Array:
        """Return a mask of the corrections and deletes of rows that were counted with earlier tags."""
        return pc.and_(pc.not_equal(changes[CHANGE], "insert"), pa.array(self.find(changes) >= 0))


def keep_groups(context: Context, plan: StreamPlan, state: StreamState, version: int) -> StreamState:
    """Return a state that knows the tags which the rows of its position have, and that rows from now on have those of a version."""
    before = state.tags_version
    retagged = None if before is None else RetaggedSubtables.since(context, plan, before)
    moved = replace(state, tags_version=version)
    if retagged is None:
        return moved
    newest = newest_times(context, plan, state.position.offsets, list(retagged.series))
    key = plan.source.series_key
    old = retagged.before.filter(pc.is_in(retagged.before[key], pa.array(newest.keys(), pa.string())))
    old = old.append_column(UNTIL, pa.array([newest[name] for name in old[key].to_pylist()], pa.int64()))
    tables = [old] if state.earlier_tags is None else [state.earlier_tags, old]
    earlier = pa.concat_tables(tables, promote_options="permissive")
    # Of two changes without a row in between, the first one's tags count.
    earlier = earlier.filter(pa.array(is_first(earlier, key))).sort_by([(key, "ascending"), (UNTIL, "ascending")])
    return replace(moved, earlier_tags=earlier.combine_chunks() if earlier.num_rows else state.earlier_tags)


def is_first(earlier: pa.Table, key: str) -> list[bool]:
    entries = list(zip(earlier[key].to_pylist(), earlier[UNTIL].to_pylist(), strict=True))
    first = {entry: position for position, entry in reversed(list(enumerate(entries)))}
    return [first[entry] == position for position, entry in enumerate(entries)]


def newest_times(context: Context, plan: StreamPlan, offsets: Offsets, series: list[str]) -> dict[str, int]:
    """Return the newest times of the stored rows of subtables, in ticks, of those that have rows."""
    key, time, newest = plan.source.series_key, plan.source.timestamp.name, dict[str, int]()
    for piece in source_pieces(context, plan, offsets, [key, time], series=series):
        ticks = pa.table({key: piece[key].cast(pa.string()), time: to_ticks(piece[time], plan.query.precision)})
        largest = ticks.group_by(key).aggregate([(time, "max")])
        for name, value in zip(largest[key].to_pylist(), largest[f"{time}_max"].to_pylist(), strict=True):
            newest[name] = max(value, newest.get(name, value))
    return newest


class EarlierTagsProcessor:
    """Leaves out, and counts as expired, changes of rows that were counted with earlier tags."""

    def __init__(self, processor: Processor, plan: StreamPlan) -> None:
        self._processor = processor
        self._plan = plan

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        if state.earlier_tags is None:
            return self._processor.process_batch(state, changes)
        earlier = EarlierTags(self._plan, state.earlier_tags)
        remaining, ignored = without_ignored(changes, earlier)
        result = self._processor.process_batch(state, replace(remaining, earlier_tags=earlier))
        counters = result.state.counters
        counters = replace(counters, rows_in=counters.rows_in + ignored, rows_expired=counters.rows_expired + ignored)
        return replace(result, state=replace(result.state, counters=counters))


def without_ignored(changes: Changes, earlier: EarlierTags) -> tuple[Changes, int]:
    """Return changes without those of rows that were counted with earlier tags, and the number of these corrections and deletes."""
    large = changes.large
    if large is not None and large.inserted is not None:
        return changes, 0

    def stream() -> Iterator[pa.Table]:
        return (piece.filter(pc.invert(earlier.is_ignored(piece))) for piece in changes.pieces())

    ignored = sum(count_corrections(piece.filter(earlier.is_ignored(piece))) for piece in changes.pieces())
    remaining = next(stream()) if large is None else LargeCommit(large.series_key, large.count, stream)
    return replace(changes, source=remaining), ignored


def count_corrections(changes: pa.Table) -> int:
    return int(pc.sum(pc.not_equal(changes[CHANGE], "update_preimage")).as_py() or 0)
