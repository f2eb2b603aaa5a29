"""A stream's results as rows of its target table, with the subtables and tags of new groups."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.errors import ExistsError
from headrace.model.types import TypeKind
from headrace.storage.types import arrow_type
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.definition.groups import GroupKind
from headrace.streams.windows.changes import from_ticks
from headrace.streams.windows.row_matching import identities

MAX_CACHED_GROUPS: Final = 1_000_000
"""Groups that are remembered; beyond that all are forgotten and asked for again."""


class TargetTable:
    """Turns windows into rows of one stream's target table. Caches the subtable of each group."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self._names: dict[tuple[Any, ...], str | None] = {}

    def rows(self, windows: pa.Table) -> pa.Table:
        """Finished windows (`p*` and the query's output columns) as physical rows of the target.

        Subtables and tag values of new groups are created. Groups whose name belongs to another table are left out, with an
        event in the catalog.
        """
        plan = self.plan
        schema = self.context.tables.schema(plan.target, plan.target_database)
        filled = {name: f"o{place}" for place, name in enumerate(plan.columns)}
        columns = []
        for field in schema:
            if field.name == plan.target.series_key:
                columns.append(self.subtables(windows))
            elif field.name in filled:
                columns.append(self.stored(windows[filled[field.name]], field))
            else:
                columns.append(pa.nulls(windows.num_rows, field.type))
        found = pa.Table.from_arrays(columns, schema=schema)
        series = found[plan.target.series_key]
        return found.filter(pc.is_valid(series)) if series.null_count else found

    def keys(self, windows: pa.Table) -> pa.Table:
        """Subtable and timestamp of the rows of windows (`p*` and `_wstart`)."""
        plan = self.plan
        field = self.context.tables.schema(plan.target, plan.target_database).field(plan.target.timestamp.name)
        start = self.stored(from_ticks(windows[WSTART], plan.query.precision), field)
        series = self.subtables(windows)
        return pa.table({plan.target.series_key: series, field.name: start}).filter(pc.is_valid(series))

    def stored(self, values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        """Values of a result as the target's column stores them; instants go over into the target's precision."""
        column = self.plan.target.column(field.name)
        if column is not None and column.type.kind is TypeKind.TIMESTAMP and values.type != field.type:
            return instants(values, field.type)
        return values if values.type == field.type else values.cast(field.type, safe=False)

    def subtables(self, windows: pa.Table) -> pa.ChunkedArray:
        """For each window the subtable of the target that its group has; NULL where it can have none."""
        columns = list(self.plan.groups.columns)
        if not columns:
            (name,) = self.named([()])
            return pa.chunked_array([pa.repeat(pa.scalar(name, pa.string()), windows.num_rows)])
        (identity,) = identities([windows], columns)
        _, first, place = np.unique(identity, return_index=True, return_inverse=True)
        groups = windows.select(columns).take(pa.array(first)).to_pylist()
        names = self.named([tuple(group[column] for column in columns) for group in groups])
        return pa.chunked_array([pa.array(names, pa.string()).take(pa.array(place))])

    def named(self, groups: Sequence[tuple[Any, ...]]) -> list[str | None]:
        """The subtables of groups, those of new groups made."""
        if len(self._names) > MAX_CACHED_GROUPS:
            self._names.clear()
        new = [group for group in groups if group not in self._names]
        if new:
            self._names.update(self.created(new))
        return [self._names[group] for group in groups]

    def created(self, groups: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], str | None]:
        """Make the subtables of groups and set their tags."""
        identity = self.identified(groups)
        rule = self.plan.groups
        place = {column: number for number, column in enumerate(rule.columns)}
        wanted = {
            group: rule.subtable(identity[group], group[place[rule.name]] if rule.name is not None else None)
            for group in groups
            if group in identity
        }
        free = self.added(list(dict.fromkeys(wanted.values())))
        made = {group: name for group, name in wanted.items() if name in free}
        if made and self.plan.target.tags:
            self.context.tables.upsert_tags(self.plan.target, self.tags(made, identity))
        return {group: made.get(group) for group in groups}

    def identified(self, groups: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
        """The ids of groups; a group of a subtable that was dropped has none."""
        rule, count = self.plan.groups, len(self.plan.groups.keys)
        if rule.kind is not GroupKind.SUBTABLE:
            return {group: rule.identity(group[:count]) for group in groups}
        found = self.context.catalog.subtables.find(self.plan.source_database.name, [group[0] for group in groups])
        return {group: found[group[0]].uid for group in groups if group[0] in found}

    def added(self, names: Sequence[str]) -> set[str]:
        """Those of the names that are subtables of the target, added where they were missing."""
        plan, subtables = self.plan, self.context.catalog.subtables
        try:
            return set(subtables.add(plan.target_database.name, plan.target.name, names))
        except ExistsError as error:
            if len(names) == 1:
                message = f"results for {names[0]} are discarded: {error.message}"
                self.context.catalog.events.record("job", plan.id, "DISCARDED", message)
                return set()
        return {name for one in names for name in self.added([one])}

    def tags(self, made: dict[tuple[Any, ...], str], identity: dict[tuple[Any, ...], int]) -> pa.Table:
        """Tags of new subtables, in stored types."""
        rule, precision = self.plan.groups, self.plan.target_database.precision
        place = {column: number for number, column in enumerate(rule.columns)}
        columns: dict[str, pa.Array] = {self.plan.target.series_key: pa.array(list(made.values()), pa.string())}
        for tag in rule.tags:
            values = [None if tag.column is None else group[place[tag.column]] for group in made]
            type_ = arrow_type(tag.type, precision)
            if tag.type.kind is TypeKind.TIMESTAMP:
                columns[tag.name] = instants(from_ticks(pa.chunked_array([values], pa.int64()), self.plan.query.precision), type_)
            else:
                columns[tag.name] = pa.array(values).cast(type_)
        if rule.id_tag is not None:
            ids = [Decimal(identity[group]) for group in made]
            columns[rule.id_tag] = pa.array(ids, pa.decimal128(20, 0))
        return pa.table(columns)


def instants(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Stored instants of one precision in the form of another: nanoseconds as integers, or microseconds."""
    if values.type == wanted:
        return values
    if pa.types.is_integer(wanted):
        return pc.multiply(values.cast(pa.int64()), 1000)
    micros = pc.divide(values, 1000)
    rounded_up = pc.greater(pc.multiply(micros, 1000), values)
    return pc.subtract(micros, rounded_up.cast(pa.int64())).cast(wanted)
