"""Binding of GROUP BY TAGS: aggregate together the series that have the same values of some tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.iotdb.aggregates import RANKED, normalize_count_if
from headrace.compute.iotdb.checks import slides
from headrace.compute.iotdb.expansion import COUNT_TIME, END_TIME, TIME, SeriesNames, expand, paths
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder, device_column
from headrace.compute.iotdb.schema import list_hash_order
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import (
    DEVICE_HEADER,
    as_tuple,
    bind_expanded,
    conjunction,
    start_ordering,
    time_item,
    window_clause,
)
from headrace.compute.nodes import Column, string
from headrace.compute.nodes import call as call_node
from headrace.compute.plan import Plan
from headrace.compute.plan_sources import RowGroup
from headrace.errors import NotSupportedError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.queries import Ordering, SelectItem
from headrace.model.tree_queries import TreeFillMode, TreeGrouping, TreeQuery
from headrace.model.trees import SeriesRef
from headrace.model.types import BIGINT
from headrace.sql.iotdb.names import result_name
from headrace.sql.iotdb.status import semantic_error

TagValues = tuple[str | None, ...]
NO_VALUE: Final = "NULL"
"""What IoTDB prints for a series that lacks a tag; it is text."""
TYPELESS: Final = frozenset(("count", "min_time", "max_time", "time_duration"))
"""Aggregates that do not read values, so that series of several types can be in one column."""


@dataclass(frozen=True, slots=True)
class TagPlan:
    """A query whose rows are groups of series.

    Attributes:
        plan: Its outputs are the time of windows, if there are any; the number of the group as text; and the columns.
        groups: The tags' values of each group, in the order of the result.
        absent: For each column the numbers of the groups that have no series of it.
        limit, offset: Numbers of windows.
    """

    plan: Plan
    keys: tuple[str, ...]
    groups: tuple[TagValues, ...]
    absent: tuple[frozenset[int], ...]
    fill: object | None = None
    limit: int | None = None
    offset: int | None = None

    def finish(self, table: pa.Table) -> pa.Table:
        """Return the result of the plan with the tags' values instead of the number of the group."""
        at = table.column_names.index(DEVICE_HEADER)
        numbers = table.column(at).cast(pa.int64())
        columns = {name: table[name] for name in table.column_names[:at]}
        for index, key in enumerate(self.keys):
            values = pa.array([NO_VALUE if group[index] is None else group[index] for group in self.groups], pa.string())
            columns[key] = pc.take(values, numbers)
        for name, absent in zip(table.column_names[at + 1 :], self.absent, strict=True):
            columns[name] = self.fill_column(table[name], pc.is_in(numbers, pa.array(sorted(absent), pa.int64())))
        return self.limited(pa.Table.from_arrays(list(columns.values()), list(columns)))

    def fill_column(self, values: pa.ChunkedArray, is_absent: pa.Array) -> pa.ChunkedArray:
        """Return a column that is NULL for groups without a series of it, then filled."""
        present = pc.if_else(is_absent, pa.scalar(None, values.type), values)
        return present if self.fill is None else pc.fill_null(present, pa.scalar(self.fill).cast(values.type))

    def limited(self, table: pa.Table) -> pa.Table:
        """Return the rows within the limits, which count windows."""
        size = len(self.groups)
        return table.slice((self.offset or 0) * size, None if self.limit is None else self.limit * size)


@dataclass(slots=True)
class TagQuery:
    """Binds a query that aggregates series by the values of their tags. `series` is in the order of the select list."""

    query: TreeQuery
    scope: TreeScope
    keys: tuple[str, ...]
    outputs: dict[Call, dict[str, SeriesRef]] = field(default_factory=dict)
    aliases: dict[Call, str] = field(default_factory=dict)
    series: list[SeriesRef] = field(default_factory=list)

    def plan(self) -> TagPlan | None:
        """Bind the query; return None if it matches no series."""
        check_clauses(self.query)
        names = SeriesNames(self.scope.tree, self.query.prefixes)
        for item in self.query.items:
            self.add_item(item, names)
        if not self.outputs:
            return None
        groups = self.groups()
        language = self.scope.language
        scope = replace(self.scope, language=replace(language, functions={**language.functions, **RANKED}))
        rows = RowsBuilder(scope, aligned=False)
        items = [self.add_column(rows, call, refs) for call, refs in self.outputs.items()]
        rows.groups = self.row_groups(groups)
        clause = window_clause(self.query.grouping)
        outputs = [SelectItem(ColumnRef(device_column(self.scope)), DEVICE_HEADER), *items]
        where = conjunction([part for node in as_tuple(self.query.where) for part in expand(node, names)])
        outputs = outputs if clause is None else [time_item(), *outputs]
        query, devices = replace(self.query, limit=None, offset=None, fill=None), list(rows.devices.values())
        bound = bind_expanded(query, scope, rows, outputs, where, None, self.orders(clause), clause, {}, devices)
        fill = None if self.query.fill is None or not isinstance(self.query.fill.value, Literal) else self.query.fill.value.value
        return TagPlan(bound.plan, self.keys, tuple(groups), self.absent(groups), fill, self.query.limit, self.query.offset)

    def add_item(self, item: SelectItem, names: SeriesNames) -> None:
        """Add the columns of one select item: one for each measurement that its path matches."""
        match normalize_count_if(item.expression):
            case Call(function=function) as call if function == COUNT_TIME:
                refuse("Count_time aggregation function using with group by tag is not supported.", call)
            case Call(arguments=(ColumnRef() as path, *rest)) as call if (
                self.scope.language.aggregate(call.function) and not any(map(paths, rest)) and path.name != TIME
            ):
                matched = names(path)
                if item.alias is not None and len(matched) > 1:
                    refuse(f"alias '{item.alias}' can only be matched with one time series", call)
                for reference in matched:
                    ref = names.series[reference.name]
                    output = replace(call, arguments=(ColumnRef(ref.name), *rest))
                    self.outputs.setdefault(output, {})[ref.path] = ref
                    self.series.append(ref)
                    self.aliases[output] = item.alias or result_name(replace(output, spelling=call.function))
            case ColumnRef(name=name) as path if name != END_TIME:
                refuse("Common queries and aggregated queries are not allowed to appear at the same time", path)
            case other:
                refuse(f"{result_name(other)} can't be used in group by tag. It will be supported in the future.", other)

    def values_of(self, ref: SeriesRef) -> TagValues:
        """Return the values of the tags of one series."""
        tags = ref.device.labels_of(ref.series.measurement).tags
        return tuple(tags.get(key) for key in self.keys)

    def groups(self) -> list[TagValues]:
        """Return the distinct values of the tags, in IoTDB's order: of equal hashes, the last to appear comes first."""
        return list_hash_order(list(dict.fromkeys(map(self.values_of, self.series)))[::-1])

    def absent(self, groups: Sequence[TagValues]) -> tuple[frozenset[int], ...]:
        """Return for each column the numbers of the groups without a series of it."""
        present = [{self.values_of(ref) for ref in refs.values()} for refs in self.outputs.values()]
        return tuple(frozenset(number for number, group in enumerate(groups) if group not in own) for own in present)

    def add_column(self, rows: RowsBuilder, call: Call, refs: dict[str, SeriesRef]) -> SelectItem:
        """Add the values that an aggregate reads as a column, and return the aggregate over it."""
        for ref in refs.values():
            rows.devices[ref.device.path] = ref.device
        types = list(dict.fromkeys(ref.type for ref in refs.values()))
        if len(types) > 1 and call.function not in TYPELESS:
            raise TypeMismatchError(
                f"{self.aliases[call]} in GROUP BY TAGS needs series of one type", hint="select series of one type", span=call.span
            )
        stored = dict.fromkeys((ref.device.database, ref.series.column) for ref in refs.values())
        name = self.column_of(call, refs)
        parts = [
            ColumnPart(
                database,
                column,
                condition=call_node("array_contains", Column("_columns"), string(token(name, column))),
                presence=len(types) > 1,
            )
            for database, column in stored
        ]
        rows.add(name, types[0] if len(types) == 1 else BIGINT, parts)
        arguments = [ColumnRef(name), *call.arguments[1:]]
        if call.function in RANKED:
            arguments.append(ColumnRef(f"rank of {name}"))
            rows.add(f"rank of {name}", BIGINT, [replace(part, presence=False, value=Column("_rank")) for part in parts])
        return SelectItem(replace(call, arguments=tuple(arguments)), self.aliases[call])

    def column_of(self, call: Call, refs: dict[str, SeriesRef]) -> str:
        """Return the name of the column of an aggregate: that of the first aggregate that reads the same series alike."""
        outputs = list(self.outputs.items())
        kind = call.function in TYPELESS
        return next(f"c{at}" for at, (other, own) in enumerate(outputs) if own == refs and (other.function in TYPELESS) == kind)

    def row_groups(self, groups: Sequence[TagValues]) -> tuple[RowGroup, ...]:
        numbers = {group: number for number, group in enumerate(groups)}
        width = len(str(len(groups)))
        tokens: dict[tuple[str, int], dict[str, None]] = {}
        for call, refs in self.outputs.items():
            name = self.column_of(call, refs)
            for ref in refs.values():
                key = (ref.device.path, numbers[self.values_of(ref)])
                tokens.setdefault(key, {})[token(name, ref.series.column)] = None
        ranks = {device: rank for rank, device in enumerate(dict.fromkeys(ref.device.path for ref in self.series))}
        return tuple(RowGroup(device, f"{number:0{width}d}", tuple(own), ranks[device]) for (device, number), own in tokens.items())

    def orders(self, clause: object | None) -> list[Ordering]:
        """Return the sort order: by window, then by group."""
        group = Ordering(ColumnRef(device_column(self.scope)))
        descending = any(order.descending for order in self.query.order_by)
        times = [] if clause is None else [Ordering(ColumnRef(TIME), descending)]
        return [*times, *start_ordering(times, clause), group]


def token(name: str, column: str) -> str:
    """Return the text that says that a row's value of a stored column belongs to a column of the query."""
    return f"{name}:{column}"


def refuse(message: str, node: Expression) -> NoReturn:
    """Raise the error for an expression that cannot be selected."""
    raise semantic_error(message, hint="select aggregates of paths, such as avg(temperature)", span=node.span)


def check_clauses(query: TreeQuery) -> None:
    """Raise an error for clauses that cannot be combined with GROUP BY TAGS."""
    grouping = query.grouping or TreeGrouping()
    is_limited = query.limit is not None or query.offset is not None
    is_sliding = grouping.time is not None and slides(grouping.time)
    is_by_time = query.where is None or all(map(is_time, paths(query.where)))
    is_unpaged = (is_limited and grouping.time is None) or (query.limit is not None and is_sliding)
    refusals = {
        "GROUP BY TAGS does not support align by device now.": query.by_device,
        "Having clause is not supported yet in GROUP BY TAGS query": query.having is not None,
        "Only time filters are supported in GROUP BY TAGS query": not is_by_time,
        "Limit or slimit are not supported yet in GROUP BY TAGS": is_unpaged
        or query.series_limit is not None
        or query.series_offset is not None,
        "select into: GROUP BY TAGS clause are not supported.": bool(query.into),
        "GROUP BY TAGS can only be combined with GROUP BY TIME": grouping.rows is not None,
        "GROUP BY TAGS can only be ordered by time": any(not is_time(order.key) for order in query.order_by),
    }
    for message, is_refused in refusals.items():
        if is_refused:
            raise semantic_error(message, hint="leave that clause out", span=query.span)
    if query.fill is not None and query.fill.mode is not TreeFillMode.CONSTANT:
        raise NotSupportedError(
            f"FILL({query.fill.mode}) cannot be combined with GROUP BY TAGS", hint="use FILL(constant)", span=query.fill.span
        )


def is_time(node: Expression) -> bool:
    """Return whether an expression is the time of a row."""
    return isinstance(node, ColumnRef) and node.name.lower() in (TIME, "timestamp")
