"""Windows by kernels: Spark's tasks read their shares of a table's files, and make segments of the rows with Arrow and NumPy.

The choice between kernels and Spark SQL is made in `compile_kernel` and `aggregate_by_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute.columnar import SegmentKernel, UnsupportedError
from headrace.compute.columnar.arrays import compiling_for_bulk
from headrace.compute.plan import WSTART, Plan
from headrace.compute.plan_sources import Scan
from headrace.compute.shares import KernelUse, ShareProvider, TaskShare, WantedShares
from headrace.compute.terms import ColumnRole
from headrace.compute.windows.group_calls import absorb_rows
from headrace.compute.windows.segments import add_derived_keys, base_key_columns, merge
from headrace.errors import NotSupportedError
from headrace.model.windows import WindowGrid
from headrace.storage.types import row_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_BATCH_ROWS: Final = 1 << 16
"""Greatest number of segments that go from a worker to its JVM at a time."""


@dataclass(frozen=True, slots=True)
class KernelWindows:
    """One segment for each window, and whether they are in the order of keys and time."""

    windows: DataFrame
    is_ordered: bool


def aggregate_by_kernels(plan: Plan, provider: ShareProvider | None) -> KernelWindows | None:
    """Return the windows of a plan by kernels; None if Spark SQL has to compute them, or does so sooner.

    Raise `NotSupportedError` if kernels are to be used always, but cannot compute the windows.
    """
    if provider is None or provider.use is KernelUse.NEVER or plan.window is None or is_virtual(plan):
        return None
    is_forced = provider.use is KernelUse.ALWAYS
    try:
        with nullcontext() if is_forced else compiling_for_bulk():
            scan, kernel = compile_kernel(plan)
        return aggregate_shares(plan, scan, kernel, provider) if is_forced or provider.is_large(scan) else None
    except (UnsupportedError, NotSupportedError) as error:
        if is_forced:
            raise NotSupportedError(f"kernels cannot compute the windows: {error}", hint="set HEADRACE_KERNELS=auto") from error
        return None


def is_virtual(plan: Plan) -> bool:
    """Return whether a plan reads a virtual table, which has no files."""
    return isinstance(plan.source, Scan) and plan.source.table.is_virtual


def compile_kernel(plan: Plan) -> tuple[Scan, SegmentKernel]:
    """Return the scan and the kernel of a plan with a window, without the keys that are derived from the series key.

    Raise `UnsupportedError` if only Spark SQL computes it.
    """
    scan = plan.source
    if not isinstance(scan, Scan):
        raise UnsupportedError("a source that is not one table")
    if scan.table.is_virtual:
        raise UnsupportedError("a virtual table")
    if plan.lists:
        raise UnsupportedError("lists of values, which Spark's own aggregates do not keep")
    if not is_within_series(plan, scan) and plan.depends_on_order:
        raise UnsupportedError("windows across series that depend on single rows")
    base = replace(plan, keys=tuple(key for key in plan.keys if not key.is_derived))
    kernel = SegmentKernel.compile(base, row_types(scan.table, plan.precision))
    return scan, kernel


def unsupported_by_kernels(plan: Plan) -> str | None:
    """Return what kernels do not know of a plan with a window; None if they compute it."""
    try:
        with compiling_for_bulk():
            compile_kernel(plan)
    except UnsupportedError as error:
        return str(error)
    return None


def is_within_series(plan: Plan, scan: Scan) -> bool:
    return plan.grouped_series is not None or scan.subtable is not None or not scan.table.has_series


def aggregate_shares(plan: Plan, scan: Scan, kernel: SegmentKernel, provider: ShareProvider) -> KernelWindows:
    """Return the windows of a plan. Spark has to merge them only if shares are made neither by windows nor by series.

    Raise `NotSupportedError` if the table cannot be divided among tasks.
    """
    wanted, within_series = WantedShares(scan, kernel.columns, plan.range), is_within_series(plan, scan)
    if isinstance(kernel.grid, WindowGrid) and not kernel.grid.overlaps:
        with suppress(NotSupportedError):
            shares = provider.shares(replace(wanted, by_series=within_series, windows=kernel.grid))
            is_ordered = all(share.by_series for share in shares) and is_ordered_by_series(plan)
            return KernelWindows(add_derived_keys(plan, to_frame(kernel, shares, merged=True)), is_ordered or not plan.keys)
    if within_series:
        try:
            shares = provider.shares(replace(wanted, by_series=True))
            return KernelWindows(add_derived_keys(plan, to_frame(kernel, shares)), is_ordered_by_series(plan))
        except NotSupportedError:
            if plan.depends_on_order:
                raise
    shares = provider.shares(wanted)
    return KernelWindows(add_derived_keys(plan, merge(kernel.plan, to_frame(kernel, shares))), is_ordered=False)


def is_ordered_by_series(plan: Plan) -> bool:
    """Return whether batches of series, each ordered by keys and time, are ordered by keys and time."""
    return plan.grouped_series is None or plan.keys[0].role is ColumnRole.SERIES


def to_frame(kernel: SegmentKernel, shares: Sequence[TaskShare], *, merged: bool = False) -> DataFrame:
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    session = SparkSession.active()
    numbers = session.range(0, len(shares), 1, max(1, len(shares)))
    return numbers.mapInArrow(segment_reader(kernel, shares, merged=merged), from_arrow_schema(kernel.schema))


def segment_reader(
    kernel: SegmentKernel, shares: Sequence[TaskShare], *, merged: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that runs in Spark's workers: the segments of the shares with the numbers in its input."""
    calls = kernel.plan.groups.calls
    order = [(name, "ascending", "at_start") for name in (*base_key_columns(kernel.plan), WSTART)]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                slices = (absorb_rows(calls, kernel.segments(rows)) for rows in shares[number].read(kernel.columns))
                for segments in merge_slices(kernel, slices) if merged else slices:
                    yield from segments.sort_by(order).to_batches(MAX_BATCH_ROWS)

    return read


def merge_slices(kernel: SegmentKernel, slices: Iterable[pa.Table]) -> Iterator[pa.Table]:
    if parts := list(slices):
        yield kernel.merge(pa.concat_tables(parts))
