"""Joining tags to rows of a source, and what a change of tags means for the rows of a stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.context import Context
from headrace.model.job_parts import whole_id
from headrace.model.ledger import ChunkState, joined
from headrace.model.positions import Offsets
from headrace.model.tables import Table
from headrace.storage import Bounds, Tables
from headrace.storage.row_matching import match_rows
from headrace.storage.values.scalars import stored_nanoseconds
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import scan_source, source_pieces
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.change_batch import CHANGE, VERSION, Changes, LargeCommit

MAX_TICK: Final = 2**62


def with_tags(tables: Tables, source: Table, rows: pa.Table, tags: Collection[str]) -> pa.Table:
    """Return the rows with these tags of their subtables as of now; NULL if a subtable has none."""
    return join_tags(rows, tables.tags.read(source), source.series_key, tags) if tags else rows


def join_tags(rows: pa.Table, tag_table: pa.Table, key: str, tags: Collection[str]) -> pa.Table:
    rows = rows.drop_columns([name for name in tags if name in rows.column_names])  # an undeclared column may have the name
    tag_row = row_of_series(rows[key], tag_table[key])
    for name in tags:
        rows = rows.append_column(tag_table.schema.field(name), pc.take(tag_table[name], tag_row))
    return rows


def row_of_series(series: pa.ChunkedArray, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return for each series its position among names; NULL if it is not among them."""
    if not pa.types.is_dictionary(series.type):
        return pc.index_in(series, names)
    encoded = series.unify_dictionaries().combine_chunks()
    return pa.chunked_array([pc.index_in(encoded.dictionary, names).take(encoded.indices)])


def computed_times(context: Context, plan: StreamPlan) -> list[tuple[int, int]]:
    """Return the times all of whose rows are computed: those since the creation, and of backfills. It is empty if all are."""
    window = plan.query.interval
    if plan.since is None:
        return []
    chunks = context.catalog.ledger.chunks(whole_id(plan.id))
    ranges = joined([(chunk.start, chunk.end - 1) for chunk in chunks if chunk.state is ChunkState.DONE])
    if window is not None:
        grid = window.grid(plan.query)
        ranges = [(start, grid.end(int(grid.assign(np.array([end]))[1].max())) - 1) for start, end in ranges]
    return joined([*ranges, (plan.since + 1, MAX_TICK)])


@dataclass(frozen=True)
class RetaggedSubtables:
    """Subtables whose tags have changed, of those that a stream reads, with all tags before and after."""

    context: Context
    plan: StreamPlan
    series: Sequence[str]
    before: pa.Table
    after: pa.Table

    @classmethod
    def since(cls, context: Context, plan: StreamPlan, version: int) -> RetaggedSubtables | None:
        """Return the subtables whose tags have changed since a version; None if those of none have."""
        names = [plan.source.series_key, *plan.scan.tags]
        before = context.tables.tags.read_at(plan.source, version).select(names)
        after = context.tables.tags.read(plan.source).select(names)
        existed = pc.is_in(after[names[0]], before[names[0]].combine_chunks())
        changed = after.filter(pc.and_(existed, pa.array(match_rows(after, before, names) < 0)))
        series = changed[names[0]].to_pylist()
        if plan.source_subtable is not None:
            series = [name for name in series if name == plan.source_subtable]
        if plan.part is not None:
            series = [name for name, is_own in zip(series, plan.part.mask(changed[names[0]]), strict=True) if is_own]
        return cls(context, plan, series, before, after) if series else None

    def changes(self, state: StreamState, tags_version: int, now: int) -> Changes:
        """Return the rows of these subtables that windows of the stream may have, at the position of its state.

        They are deleted with their tags before, and inserted with those after.
        """
        tables, plan, offsets = self.context.tables, self.plan, state.position.offsets
        bounds = Bounds.of_ticks(self._first(state), None, plan.query.precision)
        count = None if plan.source.is_virtual else tables.count_scanned(plan.source, self.series, bounds)
        make = partial(Changes, offsets, is_one_write=True, now=now, tags_version=tags_version, computed=self._computed)
        if count is not None and count > self.context.settings.driver_rows:
            return make(LargeCommit(plan.source.series_key, 2 * count, partial(self._pieces, offsets, bounds)))
        rows = scan_source(self.context, plan, offsets, plan.stored_columns, series=self.series, bounds=bounds)
        return make(self._twice(rows))

    def _first(self, state: StreamState) -> int | None:
        """Return the first instant of a row that is in a window of the stream, or would join one; None if that is any."""
        if not self._computed:
            return None
        window = self.plan.query.window
        first, target = [self._computed[0][0]], self.context.tables.bounds(self.plan.target)
        if target is not None:
            unit = stored_nanoseconds(self.plan.target_database.precision)
            first.append(target.low * unit // self.plan.query.precision.nanoseconds)
        if state.windows is not None and state.windows.num_rows:
            first.append(pc.min(state.windows.to_table()[WSTART]).as_py())
        return min(first) - (0 if window is None else window.reach)

    @cached_property
    def _computed(self) -> list[tuple[int, int]]:
        return computed_times(self.context, self.plan)

    def _pieces(self, offsets: Offsets, bounds: Bounds) -> Iterator[pa.Table]:
        """Yield the rows in pieces, at least an empty one."""
        plan, piece = self.plan, None
        for piece in source_pieces(self.context, plan, offsets, plan.stored_columns, series=self.series, bounds=bounds):
            yield self._twice(piece)
        if piece is None:
            schema = self.context.tables.schema(plan.source, plan.source_database)
            yield self._twice(schema.empty_table().select(plan.stored_columns))

    def _twice(self, rows: pa.Table) -> pa.Table:
        """Return rows as deleted with their tags before, and inserted with those after."""
        key, tags = self.plan.source.series_key, self.plan.scan.tags
        parts = [(join_tags(rows, self.before, key, tags), "delete"), (join_tags(rows, self.after, key, tags), "insert")]
        marked = [part.append_column(CHANGE, pa.array([change] * part.num_rows, pa.string())) for part, change in parts]
        both = pa.concat_tables(marked, promote_options="permissive")
        return both.append_column(VERSION, pa.array(np.zeros(both.num_rows, np.int64)))
