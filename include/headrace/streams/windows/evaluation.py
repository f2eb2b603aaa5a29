"""The evaluation of a micro-batch's windows: by kernels in this process if the plan allows that, else by Spark SQL.

Both give the same windows. Kernels take about a millisecond where a Spark job takes a hundred.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from headrace.compute import Key, Plan, merge, prepare, to_segments
from headrace.compute.columnar import OutputKernel, SegmentKernel, UnsupportedError
from headrace.compute.columnar.columns import call_types, to_arrays
from headrace.compute.columnar.frames import ArrowRows, to_table
from headrace.compute.frames import SparkRows
from headrace.compute.nodes import Column
from headrace.compute.plan import WEND, WSTART
from headrace.compute.shares import KernelUse
from headrace.compute.windows import key_columns
from headrace.compute.windows.numbering import WINDOW_NUMBER
from headrace.compute.windows.segments import aggregate_numbered, merge_columns
from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.types import BIGINT
from headrace.storage.types import row_types
from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows import window_sql
from headrace.streams.windows.change_batch import Bools, to_numpy

T = TypeVar("T")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class SparkEvaluation:
    """Evaluation by Spark SQL, in one partition."""

    context: Context
    plan: Plan

    def passing(self, rows: pa.Table) -> Bools:
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[to_numpy(self.assign_windows(rows)[window_sql.ROW]).astype(np.int64)] = True
        return mask

    def merge_inserts(self, rows: pa.Table, state_windows: pa.Table | None) -> pa.Table:
        parts = self._row_segments(self._extended, rows)
        if state_windows is not None and state_windows.num_rows:
            in_state = self._frame(window_sql.append_bookkeeping(state_windows))
            parts = parts.unionByName(in_state.select(*window_sql.segment_columns(self.plan)))
        return self._finalize(parts.coalesce(1))

    def assign_windows(self, rows: pa.Table) -> pa.Table:
        return self._row_segments(numbered_query(self._extended), numbered(rows)).toArrow()

    def merge_segments(self, segments: pa.Table) -> pa.Table:
        merged = merge(self._extended, self._frame(segments).coalesce(1), apart="false")
        return merged.select(*window_sql.segment_columns(self.plan)).toArrow()

    def finalize_windows(self, segments: pa.Table) -> pa.Table:
        return self._finalize(self._frame(segments).coalesce(1))

    def finalize_numbered(self, segments: pa.Table) -> pa.Table:
        extended, parts = self._extended, self._frame(segments).coalesce(1)
        windows = aggregate_numbered(extended, parts, key_columns(extended), merge_columns(extended), WSTART, WEND)
        return window_sql.select_outputs(self.plan, windows).toArrow()

    @property
    def _extended(self) -> Plan:
        return window_sql.stream_plan(self.plan)

    def _row_segments(self, plan: Plan, rows: pa.Table) -> DataFrame:
        return to_segments(plan, prepare(plan, self._frame(rows)), by_row=True)

    def _finalize(self, parts: DataFrame) -> pa.Table:
        # The windows that separate two windows in state may be unaffected and missing here, so two of these are never joined.
        windows = merge(self._extended, parts, apart=f"({window_sql.ADDED} = 0)")
        return window_sql.select_outputs(self.plan, windows).toArrow()

    def _frame(self, rows: pa.Table) -> DataFrame:
        return window_sql.small_frame(self.context.spark(), rows)


@dataclass(frozen=True)
class KernelEvaluation:
    """Evaluation by kernels of rows that keep their number, of windows, and of the select list over windows."""

    source: pa.Schema
    rows: SegmentKernel
    windows: SegmentKernel
    outputs: OutputKernel

    @classmethod
    def compile(cls, plan: StreamPlan) -> KernelEvaluation:
        """Compile the kernels of a stream; `UnsupportedError` if they cannot evaluate its query."""
        source = source_schema(plan)
        types = {field.name: field.type for field in source}
        extended = window_sql.stream_plan(plan.query)
        windows = SegmentKernel.compile(extended, types)
        return cls(
            source,
            SegmentKernel.compile(numbered_query(extended), types | {window_sql.ROW: pa.int64()}),
            windows,
            OutputKernel.compile(window_sql.output_columns(plan.query), windows.schema, call_types(plan.query)),
        )

    def groups(self, rows: pa.Table) -> pa.Table:
        return self.windows.groups(self._typed(rows))

    def merge_inserts(self, rows: pa.Table, state_windows: pa.Table | None) -> pa.Table:
        segments = self.windows.segments(self._typed(rows))
        if state_windows is not None and state_windows.num_rows:
            segments = self.windows.merge(pa.concat_tables([segments, self.carried(state_windows)]))
        return self.finish(segments)

    def assign_windows(self, rows: pa.Table) -> pa.Table:
        typed = self._typed(rows)
        return self.rows.row_segments(typed.append_column(window_sql.ROW, pa.array(np.arange(typed.num_rows))))

    def merge_segments(self, segments: pa.Table) -> pa.Table:
        return self.windows.merge(self._segments(segments))

    def windows_of(self, rows: pa.Table) -> pa.Table:
        """Return the windows that all rows of their groups make, with their values."""
        return self.finish(self.windows.segments(self._typed(rows)))

    def finalize_windows(self, segments: pa.Table) -> pa.Table:
        typed = self._segments(segments)
        return self.finish(self.windows.merge(typed, apart=np.asarray(to_numpy(typed[window_sql.ADDED]) == 0)))

    def finalize_numbered(self, segments: pa.Table) -> pa.Table:
        number = to_numpy(segments[WINDOW_NUMBER]).astype(np.int64)
        return self.finish(self.windows.merge_numbered(self._segments(segments), number))

    def carried(self, state_windows: pa.Table | None) -> pa.Table:
        """Return windows in state as segments without new rows."""
        if state_windows is None or state_windows.num_rows == 0:
            return self.windows.schema.empty_table()
        return self._segments(window_sql.append_bookkeeping(state_windows))

    def piece_segments(self, rows: pa.Table) -> pa.Table:
        """Return the segments of some of the rows of a commit, merged as far as other rows cannot change that."""
        typed = self._typed(rows)
        if self.windows.plan.kind.counts_rows:
            return self.windows.row_segments(typed)
        return self.windows.segments(typed)

    def add(self, windows: pa.Table, added: pa.Table) -> pa.Table:
        """Merge segments of new rows into windows, two of which stay separate: runs between them may not be in state."""
        segments = pa.concat_tables([windows, added])
        return self.windows.merge(segments, apart=np.arange(segments.num_rows) < windows.num_rows)

    def passing(self, rows: pa.Table) -> Bools:
        return self.windows.passing(self._typed(rows))

    def finish(self, windows: pa.Table) -> pa.Table:
        return self.outputs.append_to(windows)

    def _typed(self, rows: pa.Table) -> pa.Table:
        """Return the columns that the query reads in their stored types. Dictionaries stay."""
        selected = rows.select(self.source.names)
        types = zip(self.source, selected.schema, strict=True)
        return selected.cast(pa.schema([own if pa.types.is_dictionary(own.type) else stored for stored, own in types]))

    def _segments(self, segments: pa.Table) -> pa.Table:
        return segments.select(self.windows.schema.names).cast(self.windows.schema)


@dataclass(frozen=True)
class WindowEvaluation:
    """Computes windows from rows and segments. The columns are those of `window_sql`.

    Kernels do so if they can evaluate the plan; else Spark SQL, as for batches with a value that Spark has to judge, such as a sum
    out of range.
    """

    spark: SparkEvaluation
    kernels: KernelEvaluation | None

    def groups(self, rows: pa.Table) -> pa.Table | None:
        """Return the group keys of the rows that pass WHERE; None if finding them would take as long as their windows."""
        with suppress(UnsupportedError):
            return None if self.kernels is None else self.kernels.groups(rows)
        return None

    def passing(self, rows: pa.Table) -> Bools:
        """Return a mask of the rows that have segments: that pass WHERE, and have a state."""
        return self._either(lambda evaluation: evaluation.passing(rows))

    def merge_inserts(self, rows: pa.Table, state_windows: pa.Table | None) -> pa.Table:
        """Return the windows of INTERVAL after new rows: those in state and the touched ones, with their values."""
        return self._either(lambda evaluation: evaluation.merge_inserts(rows, state_windows))

    def assign_windows(self, rows: pa.Table) -> pa.Table:
        """Return the segments of rows that pass WHERE, one for each window that a row lies in, with `_row`."""
        return self._either(lambda evaluation: evaluation.assign_windows(rows))

    def merge_segments(self, segments: pa.Table) -> pa.Table:
        """Merge segments of INTERVAL or SESSION as far as they belong together."""
        return self._either(lambda evaluation: evaluation.merge_segments(segments))

    def finalize_windows(self, segments: pa.Table) -> pa.Table:
        """Merge segments into windows, and return these with their values."""
        return self._either(lambda evaluation: evaluation.finalize_windows(segments))

    def finalize_numbered(self, segments: pa.Table) -> pa.Table:
        """Merge segments that have the number of their window, and return the windows with their values."""
        return self._either(lambda evaluation: evaluation.finalize_numbered(segments))

    def _either(self, compute: Callable[[SparkEvaluation | KernelEvaluation], T]) -> T:
        if self.kernels is not None:
            with suppress(UnsupportedError):
                return compute(self.kernels)
        return compute(self.spark)


def window_evaluation(context: Context, plan: StreamPlan) -> WindowEvaluation:
    """Return how the windows of a stream are evaluated.

    Raises:
        NotSupportedError: The settings demand kernels, which cannot evaluate the query.
    """
    kernels = kernel_for(context, plan, lambda: KernelEvaluation.compile(plan))
    return WindowEvaluation(SparkEvaluation(context, plan.query), kernels)


def kernel_for(context: Context, plan: StreamPlan, compile_: Callable[[], T]) -> T | None:
    """Return what `compile_` does, or None if kernels are off or cannot evaluate the query.

    Raises:
        NotSupportedError: The settings demand kernels, which cannot evaluate the query.
    """
    use = KernelUse(context.settings.kernels)
    if use is KernelUse.NEVER:
        return None
    try:
        return compile_()
    except UnsupportedError as error:
        if use is KernelUse.ALWAYS:
            raise NotSupportedError(
                f"kernels cannot evaluate stream {plan.name}: {error}", hint="set HEADRACE_KERNELS=auto"
            ) from None
        return None


def evaluate_rows(context: Context, plan: Plan, rows: pa.Table, steps: Callable[[Any], Any]) -> pa.Table:
    """Return what steps over a `Frame` make of rows, by kernels if they can, else by Spark SQL."""
    if KernelUse(context.settings.kernels) is not KernelUse.NEVER:
        with suppress(UnsupportedError):
            return to_table(to_arrays(steps(ArrowRows(plan, rows)).table))
    return steps(SparkRows(plan, window_sql.small_frame(context.spark(), rows).coalesce(1))).frame.toArrow()


def typed_rows(plan: StreamPlan, rows: pa.Table) -> pa.Table:
    stored = source_schema(plan)
    others = [rows.schema.field(name) for name in rows.column_names if name not in stored.names]
    return rows.select([*stored.names, *(field.name for field in others)]).cast(pa.schema([*stored, *others]))


def numbered_query(query: Plan) -> Plan:
    """Return a query that keeps the numbers of its rows, as a key."""
    return replace(query, keys=(*query.keys, Key(window_sql.ROW, window_sql.ROW, Column(window_sql.ROW), BIGINT)))


def numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(window_sql.ROW, pa.array(np.arange(rows.num_rows)))


def source_schema(plan: StreamPlan) -> pa.Schema:
    types = row_types(plan.source, plan.query.precision)
    return pa.schema([(name, types[name]) for name in plan.query.scans[0].columns])
