"""Conversion of a stream's results to rows of its target table, including the subtables and tags of new groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.errors import ExistsError
from headrace.model.types import TypeKind
from headrace.storage import Bounds
from headrace.storage.types import arrow_type
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.definition.groups import GroupKind
from headrace.streams.filling.marks import MARK, mark_values, marked_table
from headrace.streams.windows.change_batch import Int64s, from_ticks
from headrace.streams.windows.row_matching import match_rows, row_ids

MAX_NEW_GROUPS: Final = 100_000
"""Subtables to create at once."""
MAX_CACHED_GROUPS: Final = 1_000_000
"""When more groups than this are cached, the cache is cleared."""


class TargetTable:
    """Converts windows to rows of one stream's target table. Caches the subtable of each group."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self._names: dict[tuple[Any, ...], str | None] = {}
        self._group_ids: dict[tuple[Any, ...], int] = {}

    @property
    def schema(self) -> pa.Schema:
        """The stored columns of the target, with the mark of FILL if the stream has one."""
        return self.context.tables.schema(marked_table(self.plan), self.plan.target_database)

    def to_rows(self, windows: pa.Table) -> pa.Table:
        """Convert finished windows to rows of the target.

        Creates the subtables and tag values of new groups. Leaves out groups whose name belongs to another table, and records an
        event in the catalog for each.

        Args:
            windows: Key columns `p*`, the query's output columns `o*`, and `_is_filled` if some were added by FILL.
        """
        plan, schema = self.plan, self.schema
        filled = {name: f"o{index}" for index, name in enumerate(plan.columns)}
        columns = []
        for field in schema:
            if field.name == plan.target.series_key:
                columns.append(self.assign_subtables(windows))
            elif field.name in filled:
                columns.append(self.to_stored(windows[filled[field.name]], field))
            elif field.name == MARK.name:
                columns.append(mark_values(plan, windows))
            else:
                columns.append(pa.nulls(windows.num_rows, field.type))
        rows = pa.Table.from_arrays(columns, schema=schema)
        series = rows[plan.target.series_key]
        return rows.filter(pc.is_valid(series)) if series.null_count else rows

    def to_keys(self, windows: pa.Table) -> pa.Table:
        """Return subtable and timestamp of the target's rows for windows with the columns `p*` and `_wstart`."""
        target, series = self.plan.target, self.assign_subtables(windows)
        keys = pa.table({target.series_key: series, target.timestamp.name: self.to_timestamps(windows[WSTART])})
        return keys.filter(pc.is_valid(series))

    def has_rows(self, windows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return for each window with the columns `p*` and `_wstart` whether the target has a row of it."""
        target, (_, names) = self.plan.target, self.identify(windows)
        times = self.to_timestamps(windows[WSTART]).cast(pa.int64())
        keys = pa.table({target.series_key: names, target.timestamp.name: times})
        stored = self.context.tables.scan(
            target,
            self.plan.target_database,
            columns=keys.column_names,
            tbnames=pc.unique(names.drop_null()).to_pylist(),
            bounds=Bounds(pc.min(times).as_py(), pc.max(times).as_py()),
        )
        index = stored.schema.get_field_index(target.timestamp.name)
        stored = stored.set_column(index, target.timestamp.name, stored[target.timestamp.name].cast(pa.int64()))
        return np.asarray(match_rows(keys, stored, keys.column_names) >= 0)

    def to_timestamps(self, ticks: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert instants in ticks of the source to timestamps of the target."""
        return self.to_stored(from_ticks(ticks, self.plan.query.precision), self.schema.field(self.plan.target.timestamp.name))

    def to_stored(self, values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        """Convert a result column to the type of the target's column; timestamps to the target's precision."""
        column = self.plan.target.column(field.name)
        if column is not None and column.type.kind is TypeKind.TIMESTAMP and values.type != field.type:
            return convert_precision(values, field.type)
        return values if values.type == field.type else values.cast(field.type, safe=False)

    def assign_subtables(self, windows: pa.Table) -> pa.ChunkedArray:
        """Return for each window the target's subtable for its group; NULL if the name is not available."""
        groups, group_index = self.distinct_groups(windows)
        names = pa.array(self.subtable_names(groups), pa.string())
        return pa.chunked_array([names.take(pa.array(group_index))])

    def identify(self, windows: pa.Table) -> tuple[npt.NDArray[np.uint64], pa.Array]:
        """Return for each window the id of its group, and the name of the group's subtable, whether or not it exists.

        Of a group whose source subtable was dropped they are 0 and NULL.
        """
        groups, group_index = self.distinct_groups(windows)
        new = [group for group in groups if group not in self._group_ids]
        if new:
            self._group_ids.update(self.group_ids(new))
        group_ids = {group: self._group_ids[group] for group in groups if group in self._group_ids}
        names = self.names_of(group_ids)
        ids = np.array([group_ids.get(group, 0) for group in groups], np.uint64)
        return ids[group_index], pa.array([names.get(group) for group in groups], pa.string()).take(pa.array(group_index))

    def distinct_groups(self, windows: pa.Table) -> tuple[list[tuple[Any, ...]], Int64s]:
        """Return the groups of windows, and for each window the index of its group."""
        columns = list(self.plan.groups.columns)
        if not columns:
            return [()], np.zeros(windows.num_rows, np.int64)
        (group_ids,) = row_ids([windows], columns)
        _, first, group_index = np.unique(group_ids, return_index=True, return_inverse=True)
        values = (windows[column].take(pa.array(first)).to_pylist() for column in columns)
        return list(zip(*values, strict=True)), group_index.astype(np.int64)

    def subtable_names(self, groups: Sequence[tuple[Any, ...]]) -> list[str | None]:
        """Return the subtables of groups, creating those of new groups."""
        if len(self._names) > MAX_CACHED_GROUPS:
            self._names.clear()
            self._group_ids.clear()
        new = [group for group in groups if group not in self._names]
        for start in range(0, len(new), MAX_NEW_GROUPS):
            self._names.update(self.create_subtables(new[start : start + MAX_NEW_GROUPS]))
        return [self._names[group] for group in groups]

    def create_subtables(self, groups: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], str | None]:
        """Create the subtables of groups and set their tags."""
        group_ids = self.group_ids(groups)
        names = self.names_of(group_ids)
        available = self.add_subtables(list(dict.fromkeys(names.values())))
        assigned = {group: name for group, name in names.items() if name in available}
        if assigned and self.plan.target.tags:
            self.context.tables.upsert_tags(self.plan.target, self.tag_rows(assigned, group_ids))
        return {group: assigned.get(group) for group in groups}

    def names_of(self, group_ids: Mapping[tuple[Any, ...], int]) -> dict[tuple[Any, ...], str]:
        """Return the names of groups' subtables, whether or not they exist."""
        rule = self.plan.groups
        index = {column: number for number, column in enumerate(rule.columns)}
        return {
            group: rule.subtable_name(id_, group[index[rule.name]] if rule.name is not None else None)
            for group, id_ in group_ids.items()
        }

    def group_ids(self, groups: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
        """Return the ids of groups. A group of a subtable that was dropped has none."""
        rule, count = self.plan.groups, len(self.plan.groups.keys)
        if rule.kind is not GroupKind.SUBTABLE:
            return {group: rule.id_of(group[:count]) for group in groups}
        uids = self.context.catalog.subtables.uids(self.plan.source_database.name, [group[0] for group in groups])
        return {group: uids[group[0]] for group in groups if group[0] in uids}

    def add_subtables(self, names: Sequence[str]) -> set[str]:
        """Add missing subtables to the target; return those of the names that belong to it."""
        plan, subtables = self.plan, self.context.catalog.subtables
        try:
            subtables.ensure(plan.target_database.name, plan.target.name, names)
        except ExistsError as error:
            if len(names) == 1:
                message = f"discarding results for {names[0]}: {error.message}"
                self.context.catalog.events.record("job", plan.id, "DISCARDED", message)
                return set()
        else:
            return set(names)
        middle = len(names) // 2
        return self.add_subtables(names[:middle]) | self.add_subtables(names[middle:])

    def tag_rows(self, subtables: dict[tuple[Any, ...], str], group_ids: dict[tuple[Any, ...], int]) -> pa.Table:
        """Return the tags of new subtables, in stored types."""
        rule, precision = self.plan.groups, self.plan.target_database.precision
        index = {column: number for number, column in enumerate(rule.columns)}
        columns: dict[str, pa.Array] = {self.plan.target.series_key: pa.array(list(subtables.values()), pa.string())}
        for tag in rule.tags:
            values = [None if tag.column is None else group[index[tag.column]] for group in subtables]
            type_ = arrow_type(tag.type, precision)
            if tag.type.kind is TypeKind.TIMESTAMP:
                columns[tag.name] = convert_precision(
                    from_ticks(pa.chunked_array([values], pa.int64()), self.plan.query.precision), type_
                )
            else:
                columns[tag.name] = pa.array(values).cast(type_)
        if rule.id_tag is not None:
            ids = [Decimal(group_ids[group]) for group in subtables]
            columns[rule.id_tag] = pa.array(ids, pa.decimal128(20, 0))
        return pa.table(columns)


def convert_precision(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert stored timestamps from one precision to another: nanoseconds are integers, others microseconds."""
    if values.type == type_:
        return values
    if pa.types.is_integer(type_):
        return pc.multiply(values.cast(pa.int64()), 1000)
    micros = pc.divide(values, 1000)
    rounded_up = pc.greater(pc.multiply(micros, 1000), values)
    return pc.subtract(micros, rounded_up.cast(pa.int64())).cast(type_)
