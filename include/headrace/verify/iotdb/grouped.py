"""GROUP BY LEVEL and TAGS: groups of the series with the same nodes at some levels, or the same values of some tags."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform
from headrace.model.paths import ROOT, join_path, split_path
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.trees import SeriesRef
from headrace.model.types import BIGINT, DOUBLE, DataType
from headrace.sql.iotdb.names import result_name
from headrace.verify.iotdb.aggregates import AGGREGATES, NEED_UNIQUE_INSTANTS, aggregate_calls
from headrace.verify.iotdb.conversions import NUMBERS
from headrace.verify.iotdb.expansion import COUNT_TIME, PathNames, combinations, having_condition
from headrace.verify.values import quoted, unsupported

COUNTING: Final = frozenset(("count", "min_time", "max_time", "time_duration"))
"""Aggregates that do not read values, so that series of any types can be in one group."""
COMPUTING: Final = frozenset(("sum", "avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"))
"""Aggregates of DOUBLE, so that series of any numbers can be in one group."""
NO_VALUE: Final = "NULL"
"""What the result has for series that lack a tag."""


@dataclass(slots=True)
class GroupedColumn:
    """The values that one aggregate reads: the series of each group, by label and path, and their common type."""

    call: Call
    alias: str | None = None
    type: DataType = BIGINT
    groups: dict[str, dict[str, SeriesRef]] = field(default_factory=dict)

    def check_unique(self, clause: str) -> None:
        """Raise `NotSupportedError` for an aggregate that needs one value an instant if a group has several series."""
        if self.call.function in NEED_UNIQUE_INSTANTS and any(len(parts) > 1 for parts in self.groups.values()):
            raise unsupported(f"{self.call.function} with GROUP BY {clause} of several series")


@dataclass(frozen=True, slots=True)
class TagGroups:
    """The groups of GROUP BY TAGS, which take the place of devices: the tags, and their values by the label of each group."""

    keys: tuple[str, ...]
    values: Mapping[str, Mapping[str, str | None]]

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the tags, as SQL over rows with the label of their group as `_device`."""
        return {f"tag{at}": f"CASE _device {self._whens(key)} END AS tag{at}" for at, key in enumerate(self.keys)}

    def _whens(self, key: str) -> str:
        values = {label: NO_VALUE if tags[key] is None else str(tags[key]) for label, tags in self.values.items()}
        return " ".join(f"WHEN {quoted(label)} THEN {quoted(value)}" for label, value in values.items())


def tag_columns(query: TreeQuery, names: PathNames, keys: tuple[str, ...]) -> tuple[dict[str, GroupedColumn], TagGroups]:
    columns: dict[Call, GroupedColumn] = {}
    groups: dict[str, dict[str, str | None]] = {}
    for item in query.items:
        call, pattern = _aggregate_of(item.expression)
        for path in names(pattern):
            series = names.series[path]
            output = replace(call, arguments=(ColumnRef(series.name), *call.arguments[1:]))
            column = columns.setdefault(output, GroupedColumn(output, type=series.series.type))
            column.alias = item.alias or column.alias
            column.type = column.type if column.type == series.series.type else BIGINT
            tags = series.device.labels_of(series.series.measurement).tags
            values = {key: tags.get(key) for key in keys}
            label = json.dumps(values, ensure_ascii=False)
            groups[label] = values
            column.groups.setdefault(label, {})[path] = series
    return {f"column {number}": column for number, column in enumerate(columns.values())}, TagGroups(keys, groups)


def _aggregate_of(node: Expression) -> tuple[Call, ColumnRef]:
    match node:
        case Call(function=function, arguments=(ColumnRef() as path, *rest)) as call if (
            function in AGGREGATES and function != COUNT_TIME and all(isinstance(part, Literal) for part in rest)
        ):
            return call, path
    raise unsupported(f"{result_name(node)} with GROUP BY TAGS")


@dataclass(slots=True)
class LevelExpansion:
    """Resolves the paths of a query with GROUP BY LEVEL.

    Attributes:
        masks: The path of the group of each series, as the first item that names it has it.
        groups: The series, by path, of each aggregate of a path with `*` at the other levels.
    """

    query: TreeQuery
    names: PathNames
    levels: Sequence[int]
    masks: dict[str, str] = field(default_factory=dict)
    groups: dict[Call, dict[str, SeriesRef]] = field(default_factory=dict)

    def items(self) -> list[SelectItem]:
        """Return the columns, as aggregates of the names in `columns`. Each choice of FROM prefixes has columns of its own.

        A column that repeats an earlier one, and has no alias, has the alias of that one.
        """
        parts = [(item, full) for item in self.query.items for full in self._with_prefixes(item)]
        columns = [column for item, full in parts for column in self._columns(item, full)]
        named: list[SelectItem] = []
        aliases: dict[str, str | None] = {}
        for text, column in columns:
            if column.alias != text:
                aliases[text] = column.alias
            named.append(replace(column, alias=aliases.get(text, column.alias)))
        return named

    def _with_prefixes(self, item: SelectItem) -> list[Expression]:
        """Return the expression of an item with full paths, once for each choice of prefixes for them."""

        def resolve(reference: ColumnRef) -> list[str]:
            nodes = split_path(reference.name)
            if nodes[0] == ROOT:
                return [reference.name]
            return [join_path((*prefix.nodes, *nodes)) for prefix in self.query.prefixes]

        return combinations(item.expression, resolve)

    def _columns(self, item: SelectItem, node: Expression) -> list[tuple[str, SelectItem]]:
        """Return the columns of an item whose paths are full, with their texts. `count(*)` combines all measurements of a group."""
        columns: dict[str, tuple[str, SelectItem]] = {}
        for part in combinations(node, self.names):
            if not aggregate_calls(part):
                raise unsupported(f"{result_name(item.expression)} with GROUP BY LEVEL")
            masked = self._masked(part, keep_measurement=not _is_count_of_all(item.expression))
            text = result_name(masked)
            name = item.alias or text
            columns[name] = text, SelectItem(_over_groups(masked), name)
        return list(columns.values())

    def having(self) -> Expression | None:
        """Return HAVING, as a condition on aggregates of the names in `columns`."""
        expanded = having_condition(self.query.having, self.names.or_nothing)
        return None if expanded is None else _over_groups(self._masked(expanded, keep_measurement=True))

    def _masked(self, node: Expression, *, keep_measurement: bool) -> Expression:
        """Replace the paths in an expression by those of their groups, and record the series of these."""

        def change(part: Expression) -> Expression | None:
            if not isinstance(part, Call) or part.function not in AGGREGATES:
                return None
            match part.arguments:
                case (ColumnRef(name=path),) if part.function != COUNT_TIME:
                    series = self.names.series[path]
                    masked = self.masks.setdefault(path, _masked_path(series, self.levels, keep_measurement=keep_measurement))
                    group = replace(part, arguments=(ColumnRef(masked),))
                    self.groups.setdefault(group, {})[path] = series
                    return group
            raise unsupported(f"{result_name(part)} with GROUP BY LEVEL")

        return transform(node, change)

    def columns(self) -> dict[str, GroupedColumn]:
        """Return the series of each group, which have no labels, by a name for their values."""
        return {
            _group_name(call): GroupedColumn(call, None, _common_type(call.function, parts.values()), {"": parts})
            for call, parts in self.groups.items()
        }


def _is_count_of_all(node: Expression) -> bool:
    match node:
        case Call(function="count", arguments=(ColumnRef(name=name),)):
            return split_path(name)[-1] in ("*", "**")
    return False


def _group_name(call: Call) -> str:
    return result_name(replace(call, spelling=call.function))


def _over_groups(node: Expression) -> Expression:
    def change(part: Expression) -> Expression | None:
        if isinstance(part, Call) and part.function in AGGREGATES:
            return replace(part, arguments=(ColumnRef(_group_name(part)),))
        return None

    return transform(node, change)


def _common_type(function: str, parts: Iterable[SeriesRef]) -> DataType:
    """Return the type of the values of a group; BIGINT of those that are only counted."""
    types = {part.series.type for part in parts}
    if len(types) == 1:
        return next(iter(types))
    if function in COMPUTING and all(type_.kind in NUMBERS for type_ in types):
        return DOUBLE
    if function in COUNTING:
        return BIGINT
    raise unsupported(f"{function} with GROUP BY LEVEL of several types")


def _masked_path(part: SeriesRef, levels: Sequence[int], *, keep_measurement: bool) -> str:
    nodes = (*part.device.nodes, part.series.measurement)
    last = len(nodes) - 1

    def is_kept(level: int) -> bool:
        return keep_measurement if level == last else level == 0 or level in levels

    return join_path(node if is_kept(level) else "*" for level, node in enumerate(nodes))
