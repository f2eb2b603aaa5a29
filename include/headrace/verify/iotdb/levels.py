"""GROUP BY LEVEL: groups of the series whose paths have the same nodes at some levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, transform
from headrace.model.paths import ROOT, join_path, split_path
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.types import BIGINT, DOUBLE, DataType
from headrace.sql.iotdb.names import result_name
from headrace.verify.iotdb.aggregates import AGGREGATES, NEED_UNIQUE_INSTANTS, aggregate_calls
from headrace.verify.iotdb.conversions import NUMBERS
from headrace.verify.iotdb.expansion import COUNT_TIME, PathNames, combinations, having_condition
from headrace.verify.iotdb.sources import Series
from headrace.verify.values import unsupported

COUNTING: Final = frozenset(("count", "min_time", "max_time", "time_duration"))
"""Aggregates that do not read values, so that series of any types can be in one group."""
COMPUTING: Final = frozenset(("sum", "avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"))
"""Aggregates of DOUBLE, so that series of any numbers can be in one group."""


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
    groups: dict[Call, dict[str, Series]] = field(default_factory=dict)

    def items(self) -> list[SelectItem]:
        """Return the columns, as aggregates of the names in `series`. Each choice of FROM prefixes has columns of its own.

        A column that repeats an earlier one, and has no alias, has the alias of that one.
        """
        columns = [
            column for item in self.query.items for full in self._with_prefixes(item) for column in self._columns(item, full)
        ]
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
        """Return HAVING, as a condition on aggregates of the names in `series`."""
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

    def series(self) -> dict[str, dict[str, list[Series]]]:
        """Return the series of each group, by a name for their values and an empty label."""
        for call, parts in self.groups.items():
            if call.function in NEED_UNIQUE_INSTANTS and len(parts) > 1:
                raise unsupported(f"{call.function} with GROUP BY LEVEL of several series")
        return {_group_name(call): {"": list(parts.values())} for call, parts in self.groups.items()}

    def types(self) -> dict[str, DataType]:
        """Return the types of the values of each group."""
        return {
            _group_name(call): _common_type(call.function, {part.series.type for part in parts.values()})
            for call, parts in self.groups.items()
        }


def _is_count_of_all(node: Expression) -> bool:
    match node:
        case Call(function="count", arguments=(ColumnRef(name=name),)):
            return split_path(name)[-1] in ("*", "**")
    return False


def _group_name(call: Call) -> str:
    """Return the name of the values that an aggregate of a group reads."""
    return result_name(replace(call, spelling=call.function))


def _over_groups(node: Expression) -> Expression:
    """Replace the paths of groups in an expression by the names of their values."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Call) and part.function in AGGREGATES:
            return replace(part, arguments=(ColumnRef(_group_name(part)),))
        return None

    return transform(node, change)


def _common_type(function: str, types: set[DataType]) -> DataType:
    """Return the type of the values of a group; BIGINT of those that are only counted."""
    if len(types) == 1:
        return next(iter(types))
    if function in COMPUTING and all(type_.kind in NUMBERS for type_ in types):
        return DOUBLE
    if function in COUNTING:
        return BIGINT
    raise unsupported(f"{function} with GROUP BY LEVEL of several types")


def _masked_path(part: Series, levels: Sequence[int], *, keep_measurement: bool) -> str:
    """Return the path of a series with `*` at the levels that GROUP BY LEVEL does not name."""
    nodes = (*part.device.nodes, part.series.measurement)
    last = len(nodes) - 1

    def is_kept(level: int) -> bool:
        return keep_measurement if level == last else level == 0 or level in levels

    return join_path(node if is_kept(level) else "*" for level, node in enumerate(nodes))
