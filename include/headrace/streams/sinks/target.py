"""Conversion of a stream's results to rows of its target table."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.context import Context
from headrace.model.tables import Table
from headrace.model.types import TypeKind
from headrace.storage import Bounds
from headrace.storage.row_matching import match_rows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.marks import MARK, mark_values, window_mark
from headrace.streams.sinks.hidden_columns import stored_table
from headrace.streams.sinks.target_groups import TargetGroups, convert_precision
from headrace.streams.windows.change_batch import from_ticks, to_ticks

GROUP: Final = "_group"


class TargetTable:
    """Converts windows to rows of one stream's target table. Caches the subtable of each group."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.groups = TargetGroups(context, plan)

    @cached_property
    def table(self) -> Table:
        """The target with its hidden columns."""
        return stored_table(self.context, self.plan)

    @property
    def schema(self) -> pa.Schema:
        """The stored columns of the target."""
        return self.context.tables.schema(self.table, self.plan.target_database)

    def to_rows(self, windows: pa.Table) -> pa.Table:
        """Convert finished windows to rows of the target: key columns `p*`, outputs `o*`, and maybe `_is_filled` for those of FILL.

        Creates the subtables and tag values of new groups. Leaves out groups whose source subtable was dropped.
        """
        plan, schema = self.plan, self.schema
        filled = {name: f"o{index}" for index, name in enumerate(plan.columns)}
        tags = {tag.name: tag for tag in plan.groups.tags}
        columns = []
        for field in schema:
            if field.name == plan.target.series_key:
                columns.append(self.groups.assign(windows))
            elif field.name in filled:
                columns.append(self.to_stored(windows[filled[field.name]], field))
            elif field.name in tags:
                columns.append(self.groups.tag_values(windows, tags[field.name]))
            elif field.name == MARK.name:
                columns.append(mark_values(plan, windows))
            else:
                columns.append(pa.nulls(windows.num_rows, field.type))
        rows = pa.Table.from_arrays(columns, schema=schema)
        series = rows[plan.target.series_key]
        return rows.filter(pc.is_valid(series)) if series.null_count else rows

    def to_keys(self, windows: pa.Table) -> pa.Table:
        """Return subtable and timestamp of the target's rows for windows with the columns `p*` and `_wstart`."""
        target, series = self.plan.target, self.groups.assign(windows)
        keys = pa.table({target.series_key: series, target.timestamp.name: self.to_timestamps(windows[WSTART])})
        return keys.filter(pc.is_valid(series))

    def has_rows(self, windows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return for each window with the columns `p*` and `_wstart` whether the target has a row of it."""
        target, (_, names) = self.plan.target, self.groups.identify(windows)
        times = self.to_timestamps(windows[WSTART]).cast(pa.int64())
        keys = pa.table({target.series_key: names, target.timestamp.name: times})
        stored = self.context.tables.scan(
            target,
            columns=keys.column_names,
            tbnames=pc.unique(names.drop_null()).to_pylist(),
            bounds=Bounds(pc.min(times).as_py(), pc.max(times).as_py()),
        )
        index = stored.schema.get_field_index(target.timestamp.name)
        stored = stored.set_column(index, target.timestamp.name, stored[target.timestamp.name].cast(pa.int64()))
        return np.asarray(match_rows(keys, stored, keys.column_names) >= 0)

    def windows_between(self, groups: pa.Table, first: int, last: int) -> pa.Table:
        """Return `_group` and `_wstart` of the windows that the target has of some groups between two instants, both inclusive.

        `_group` is the number of the group in the table. Starts are in ticks of the source, cut to the precision of the target.
        Those that FILL has added are left out.
        """
        target, (_, names) = self.plan.target, self.groups.identify(groups)
        times = self.to_timestamps(pa.chunked_array([pa.array([first, last], pa.int64())])).cast(pa.int64()).to_pylist()
        stored = self.context.tables.scan(
            target,
            columns=[target.series_key, target.timestamp.name],
            filter=pc.field(MARK.name) == window_mark(self.plan) if self.plan.fills_gaps else None,
            tbnames=pc.unique(names.drop_null()).to_pylist(),
            bounds=Bounds(*times),
        )
        starts = stored[target.timestamp.name]
        if starts.type != (own := from_ticks(pa.chunked_array([pa.array([0])]), self.plan.query.precision).type):
            starts = convert_precision(starts, own)
        ticks = pa.array(to_ticks(starts, self.plan.query.precision))
        return pa.table({GROUP: pc.index_in(stored[target.series_key], names), WSTART: ticks})

    def to_timestamps(self, ticks: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert instants in ticks of the source to timestamps of the target."""
        return self.to_stored(from_ticks(ticks, self.plan.query.precision), self.schema.field(self.plan.target.timestamp.name))

    def to_stored(self, values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        """Convert a result column to the type of the target's column; timestamps to the target's precision."""
        column = self.plan.target.column(field.name)
        if column is not None and column.type.kind is TypeKind.TIMESTAMP and values.type != field.type:
            return convert_precision(values, field.type)
        return values if values.type == field.type else values.cast(field.type, safe=False)
