"""The stored rows of a stream's source as of the offsets of a position."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.model.tables import TableId
from headrace.storage import Bounds
from headrace.storage.delta.scans import Extent
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.source_tables import source_tables
from headrace.streams.sources.virtual_frames import virtual_frame
from headrace.streams.sources.virtual_parts import virtual_pieces
from headrace.streams.sources.virtual_rows import scan_virtual

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def scan_source(
    context: Context,
    plan: StreamPlan,
    offsets: Offsets,
    columns: Sequence[str],
    *,
    filter: pc.Expression | None = None,
    series: Collection[str] | None = None,
    bounds: Bounds | None = None,
) -> pa.Table:
    """Return stored rows as of offsets; `filter`, `series` and `bounds` restrict them as those of `Tables.scan` do."""
    if plan.source.is_virtual:
        rows = scan_virtual(context, plan.scan, offsets, series, bounds).select(columns)
        return without_set_aside(context, plan, rows if filter is None else rows.filter(filter))
    rows = context.tables.scan(
        plan.source, columns=columns, filter=filter, version=offsets[plan.source_ids[0]], tbnames=series, bounds=bounds
    )
    return without_set_aside(context, plan, rows)


def source_pieces(
    context: Context,
    plan: StreamPlan,
    offsets: Offsets,
    columns: Sequence[str],
    *,
    filter: pc.Expression | None = None,
    series: Collection[str] | None = None,
    bounds: Bounds | None = None,
) -> Iterator[pa.Table]:
    """Yield what `scan_source` returns, about half a million rows at a time."""
    if plan.source.is_virtual:
        rows = virtual_pieces(context, plan.scan, offsets, series, bounds)
        pieces: Iterator[pa.Table] = (
            piece.select(columns) if filter is None else piece.select(columns).filter(filter) for piece in rows
        )
    else:
        version = offsets[plan.source_ids[0]]
        pieces = context.tables.scan_pieces(plan.source, columns, filter=filter, version=version, tbnames=series, bounds=bounds)
    return (without_set_aside(context, plan, piece) for piece in pieces)


def without_set_aside(context: Context, plan: StreamPlan, rows: pa.Table) -> pa.Table:
    return rows if context.set_aside is None else context.set_aside.exclude(rows, plan.source, plan.query.precision)


def source_frame(context: Context, plan: StreamPlan, offsets: Offsets) -> DataFrame:
    """Return all stored rows as of offsets, without tags."""
    if plan.source.is_virtual:
        frame = virtual_frame(context, plan.scan, offsets)
    else:
        frame = context.tables.frame(context.spark(), plan.source, version=offsets[plan.source_ids[0]])
    if context.set_aside is None:
        return frame
    return context.set_aside.exclude_frame(frame, plan.source, plan.query.precision, context.spark())


def source_extents(context: Context, plan: StreamPlan, offsets: Offsets) -> list[Extent]:
    """Return the extents of the data files of all sources as of offsets."""
    tables = source_tables(context, plan.sources)
    return [
        extent
        for source, table in tables.items()
        for extent in context.tables.extents(table, plan.source_database, offsets[source])
    ]


def count_rows(context: Context, sources: Sequence[TableId]) -> int:
    """Return the number of rows of all sources, from statistics."""
    return sum(context.tables.rows(table) for table in source_tables(context, sources).values())


def has_many_rows(context: Context, plan: StreamPlan, low: int, high: int) -> bool:
    """Return whether a range of ticks may have more rows than the driver should read at once."""
    tables, limit = source_tables(context, plan.sources).values(), context.settings.driver_rows
    if sum(context.tables.rows(table) for table in tables) <= limit:
        return False
    bounds = Bounds.of_ticks(low, high, plan.query.precision)
    counts = [context.tables.count_scanned(table, (), bounds) for table in tables]
    return any(count is None for count in counts) or sum(count or 0 for count in counts) > limit


def stored_times(context: Context, plan: StreamPlan) -> Bounds | None:
    """Return bounds of the stored timestamps of all sources, in stored units; None if they are empty."""
    by_source = [context.tables.bounds(table) for table in source_tables(context, plan.sources).values()]
    bounds = [bound for bound in by_source if bound is not None]
    return Bounds(min(bound.low for bound in bounds), max(bound.high for bound in bounds)) if bounds else None


def max_stored_time(context: Context, plan: StreamPlan) -> int | None:
    """Return an upper bound of the event times of all sources, in ticks; None if they are empty."""
    bounds = stored_times(context, plan)
    return None if bounds is None else bounds.high // stored_units_per_tick(plan.query.precision)
