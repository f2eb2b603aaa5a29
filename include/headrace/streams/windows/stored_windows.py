"""The windows of a stream's stored rows, computed by kernels in this process if there are few rows.

A small history, and the state after it, then need no job of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import ProjectionKernel, UnsupportedError
from headrace.compute.plan import TS
from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.storage import Bounds
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan
from headrace.streams.definition.series_parts import SeriesPart
from headrace.streams.sources.stored import count_rows, has_many_rows, scan_source
from headrace.streams.sources.tags import with_tags
from headrace.streams.state.checkpoints import MAX_EVENT_TIMES
from headrace.streams.windows import window_sql
from headrace.streams.windows.change_batch import Bools, to_numpy
from headrace.streams.windows.evaluation import KernelEvaluation, kernel_for, numbered, numbered_query, source_schema


@dataclass(frozen=True)
class RowKernel:
    """A query without a window, whose results have the number of their row."""

    source: pa.Schema
    kernel: ProjectionKernel

    @classmethod
    def compile(cls, plan: StreamPlan) -> RowKernel:
        source = source_schema(plan)
        types = {field.name: field.type for field in source} | {window_sql.ROW: pa.int64()}
        return cls(source, ProjectionKernel.compile(numbered_query(plan.query), types))

    def windows_of(self, rows: pa.Table) -> pa.Table:
        return self.kernel.project(numbered(rows.select(self.source.names)))

    def passing(self, rows: pa.Table) -> Bools:
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[to_numpy(self.windows_of(rows)[window_sql.ROW]).astype(np.int64)] = True
        return mask


@dataclass(frozen=True)
class StoredWindows:
    """Evaluates the windows of a stream at fixed offsets of its sources, as far as kernels and the number of rows allow it.

    Each method returns None if Spark has to do it.
    """

    context: Context
    plan: StreamPlan
    offsets: Offsets
    series: SeriesRange | SeriesPart = ALL_SERIES

    @cached_property
    def _kernels(self) -> KernelEvaluation | RowKernel | None:
        compile_ = RowKernel.compile if self.plan.query.window is None else KernelEvaluation.compile
        return kernel_for(self.context, self.plan, lambda: compile_(self.plan))

    def windows(self, first: int | None, last: int | None) -> pa.Table | None:
        """Return the windows of the rows from `first` to `last`, with partials, `_is_result` and the select list as stored.

        Without a window in the query, return the select list of each row.
        """
        rows = self._rows(first, last)
        if rows is None or self._kernels is None:
            return None
        try:
            return self._kernels.windows_of(rows)
        except UnsupportedError:
            return None

    def results(self, first: int | None, last: int | None) -> pa.Table | None:
        """Return the finished windows of these rows, with the columns of `compute.finish` among others."""
        windows = self.windows(first, last)
        if windows is None or self.plan.query.window is None:
            return windows
        return windows.filter(windows[window_sql.IS_RESULT])

    def groups(self) -> pa.Table | None:
        """Return the keys of all groups of the query."""
        rows = self._rows(None, None)
        if rows is None or not isinstance(self._kernels, KernelEvaluation):
            return None
        try:
            return self._kernels.groups(rows)
        except UnsupportedError:
            return None

    def max_event_times(self) -> pa.Table | None:
        """Return the last event time of each subtable, of rows that pass WHERE."""
        rows = self._rows(None, None)
        if rows is None or self._kernels is None:
            return None
        try:
            passing = rows.filter(pa.array(self._kernels.passing(rows)))
        except UnsupportedError:
            return None
        unit = stored_units_per_tick(self.plan.query.precision)
        ticks = pc.divide(passing[self.plan.source.timestamp.name].cast(pa.int64()), unit)
        name, time = MAX_EVENT_TIMES.names
        times = pa.table({name: passing[self.plan.source.series_key], TS: ticks})
        latest = times.group_by(name).aggregate([(TS, "max")]).select([name, f"{TS}_max"])
        return latest.rename_columns([name, time]).cast(MAX_EVENT_TIMES)

    def _rows(self, first: int | None, last: int | None) -> pa.Table | None:
        """Return the rows from `first` to `last`, both inclusive, with tags."""
        plan = self.plan
        if self._kernels is None or self._has_many_rows(first, last):
            return None
        bounds = None if first is None or last is None else Bounds.of_ticks(first, last, plan.query.precision)
        rows = scan_source(self.context, plan, self.offsets, plan.stored_columns, series=plan.source_series, bounds=bounds)
        mask = self.series.mask(rows[plan.source.series_key].cast(pa.string()))
        return with_tags(self.context.tables, plan.source, rows if mask is None else rows.filter(pa.array(mask)), plan.scan.tags)

    def _has_many_rows(self, first: int | None, last: int | None) -> bool:
        if first is not None and last is not None:
            return has_many_rows(self.context, self.plan, first, last)
        return count_rows(self.context, self.plan.sources) > self.context.settings.driver_rows
