"""Binding of ALIGN BY TIME: one row per instant, one column per series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.compute.iotdb.by_level import LevelQuery
from headrace.compute.iotdb.checks import is_aggregated
from headrace.compute.iotdb.expansion import (
    MAX_COLUMNS,
    SeriesNames,
    counts_times,
    empty_if_null,
    expand_having,
    expand_where,
    paths,
    result_header,
)
from headrace.compute.iotdb.rows import RowsBuilder, series_part
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import (
    TreePlan,
    apply_series_limits,
    as_tuple,
    bind_expanded,
    conjunction,
    control_expressions,
    end_time_items,
    expand_clause,
    items_without_end_time,
    time_item,
    time_ordering,
    window_clause,
)
from headrace.errors import LimitError, ProgrammingError
from headrace.model.expressions import Expression
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery


@dataclass(slots=True)
class TimeQuery:
    """Binds a query whose rows are aligned by time."""

    query: TreeQuery
    scope: TreeScope

    def plan(self) -> TreePlan | None:
        """Bind the query; return None if it matches no series."""
        query, language = self.query, self.scope.language
        names = SeriesNames(self.scope.tree, query.prefixes)
        if query.grouping is not None and query.grouping.levels:
            return LevelQuery(query, self.scope, names, query.grouping.levels).plan()
        items = apply_series_limits(self.items(names), query)
        if not items_without_end_time(items):
            return None
        check_aliases(items)
        aggregated = any(is_aggregated(item.expression, language) for item in items)
        where = conjunction(expand_where(query.where, names.or_null))
        having = conjunction(expand_having(query.having, names.or_null, language))
        having = empty_if_null(where, having) if aggregated else having
        orders = time_ordering(query, names, aggregated=aggregated)
        clause = window_clause(query.grouping)
        used = {
            name
            for node in (
                *(item.expression for item in items),
                *as_tuple(where),
                *as_tuple(having),
                *(order.expression for order in orders),
                *control_expressions(clause),
            )
            for name in column_names(node, names)
        }
        if any(counts_times(item.expression) for item in query.items):
            used |= set(names.all_series())
        if clause is not None:
            clause = expand_clause(clause, names)
            used |= {name for node in control_expressions(clause) for name in column_names(node, names)}
        rows = RowsBuilder(self.scope, aligned=True)
        refs = {name: names.series[name] for name in names.series if name in used}
        if not refs:
            return None
        for ref in refs.values():
            rows.devices[ref.device.path] = ref.device
        for name, ref in refs.items():
            rows.add(name, ref.type, [series_part(ref, one_device=len(rows.devices) == 1)])
        outputs = items if aggregated and clause is None else [time_item(), *end_time_items(items), *items_without_end_time(items)]
        return bind_expanded(query, self.scope, rows, outputs, where, having, orders, clause, names.series, ())

    def items(self, names: SeriesNames) -> list[SelectItem]:
        """Return one select item for each result column."""
        expanded: list[SelectItem] = []
        for item in self.query.items:
            nodes = [node for nodes in names.expansions(normalize_count_if(item.expression)) for node in nodes]
            if len(expanded) + len(nodes) > MAX_COLUMNS:
                hint = "name fewer series, or add ALIGN BY DEVICE, which has one column for each measurement"
                raise LimitError(f"the result has more than {MAX_COLUMNS} columns", hint=hint, span=item.expression.span)
            header = result_header(item.expression)
            expanded.extend(SelectItem(node, item.alias, header(node)) for node in nodes)
        return expanded


def check_aliases(items: Sequence[SelectItem]) -> None:
    """Raise `ProgrammingError` if several columns have the same alias. SLIMIT may have left one of them."""
    aliased: set[str] = set()
    for item in items:
        if item.alias in aliased:
            raise ProgrammingError(
                f"alias '{item.alias}' can only be matched with one time series", hint="name the series", span=item.expression.span
            )
        if item.alias is not None:
            aliased.add(item.alias)


def column_names(node: Expression, names: SeriesNames) -> set[str]:
    """Return the series that an expression reads."""
    return {reference.name for reference in paths(node) if reference.name in names.series}
