"""Pruning of data files by the statistics in the table's log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.storage.types import MICROSECONDS
from headrace.storage.values.scalars import stored_units_per_tick

# Statistics round timestamps down to milliseconds, so that a file's maximum may be this much greater.
SLACK_MICROSECONDS: Final = 999
MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest timestamp, as stored: microseconds, or nanoseconds where the precision is ns; both inclusive."""

    low: int
    high: int

    @classmethod
    def of_ticks(cls, low: int | None, high: int | None, precision: Precision) -> Bounds:
        """Return a range of ticks, both ends inclusive, in the stored unit, clamped to 64 bits; None is unbounded."""
        unit = stored_units_per_tick(precision)
        ends = (-MAX_INT64 if low is None else low * unit, MAX_INT64 if high is None else high * unit + unit - 1)
        return cls(*(min(max(end, -MAX_INT64), MAX_INT64) for end in ends))

    @property
    def length(self) -> int:
        """The number of instants."""
        return self.high - self.low + 1

    def intersection(self, other: Bounds) -> Bounds:
        """Return the range of the instants that two overlapping ranges have in common."""
        return Bounds(max(self.low, other.low), min(self.high, other.high))

    def overlaps(self, other: Bounds) -> bool:
        """Return True if two ranges have an instant in common."""
        return self.low <= other.high and other.low <= self.high


def as_stored_integers(times: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return stored timestamps as integers of their own unit."""
    return times.cast(pa.int64())


def stored_timestamp(schema: pa.Schema, name: str, value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(schema.field(name).type)


def time_bounds(rows: pa.Table, name: str) -> Bounds:
    """Return the bounds of the timestamps of one or more rows."""
    least_greatest = pc.min_max(as_stored_integers(rows[name]))
    return Bounds(least_greatest["min"].as_py(), least_greatest["max"].as_py())


def file_bounds(files: pa.Table, name: str, schema: pa.Schema) -> tuple[pa.ChunkedArray, pa.ChunkedArray] | None:
    """Return each file's least and greatest timestamp as integers, null if unknown; None if no file has statistics."""
    low, high = f"min.{name}", f"max.{name}"
    if low not in files.column_names or high not in files.column_names:
        return None
    if schema.field(name).type == MICROSECONDS:
        least, greatest = files[low].cast(MICROSECONDS).cast(pa.int64()), files[high].cast(MICROSECONDS).cast(pa.int64())
        return least, pc.add(greatest, SLACK_MICROSECONDS)
    return files[low].cast(pa.int64()), files[high].cast(pa.int64())


def prune_files(
    files: pa.Table, table: Table, schema: pa.Schema, bounds: Bounds | None, tbnames: Collection[str] | None
) -> pa.Table:
    """Return the files that may hold rows of these times and subtables (None: of all)."""
    keep = None
    file_times = file_bounds(files, table.timestamp.name, schema) if bounds is not None else None
    if file_times is not None and bounds is not None:
        least, greatest = file_times
        keep = pc.and_(pc.less_equal(least, bounds.high), pc.greater_equal(greatest, bounds.low))
    if tbnames and f"min.{table.series_key}" in files.column_names:
        # Statistics truncate long names, so the least name is truncated alike before it is compared with a maximum.
        least, greatest = files[f"min.{table.series_key}"], files[f"max.{table.series_key}"]
        named = pc.and_(pc.less_equal(least, max(tbnames)), pc.greater_equal(greatest, _truncate(min(tbnames))))
        keep = named if keep is None else pc.and_kleene(keep, named)
    return files if keep is None else files.filter(pc.fill_null(keep, True))


def _truncate(name: str) -> str:
    """Truncate a name as statistics do."""
    return name[:32]


def key_filter(table: Table, schema: pa.Schema, bounds: Bounds | None, tbnames: Sequence[str] | None) -> pc.Expression | None:
    condition: pc.Expression | None = None
    if bounds is not None:
        time = pc.field(table.timestamp.name)
        name = table.timestamp.name
        condition = (time >= stored_timestamp(schema, name, bounds.low)) & (time <= stored_timestamp(schema, name, bounds.high))
    if tbnames is not None:
        named = text_field(table.series_key).isin(pa.array(tbnames, pa.string()))
        condition = named if condition is None else condition & named
    return condition


def text_field(name: str) -> pc.Expression:
    """Return a text column for a pushed-down filter.

    delta-rs writes text as `string_view`, and Arrow fails to compare the statistics of such files with text. A cast keeps Arrow
    from using the statistics.
    """
    return pc.field(name).cast(pa.string())
