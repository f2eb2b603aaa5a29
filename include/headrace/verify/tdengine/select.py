"""Compute a SELECT in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, Expression, conjuncts
from headrace.model.queries import FillMode, IntervalClause, Ordering, Query, SelectItem
from headrace.verify.compare import ComparisonMode
from headrace.verify.expressions import Compiler
from headrace.verify.result import Answer, Members, Output
from headrace.verify.steps import END, START, TS, WINDOW, Partition, Steps, order_term
from headrace.verify.tdengine.aggregates import ROW_FOR_NO_INPUT, RowsCall, calls_of, constants_of
from headrace.verify.tdengine.conversions import compile_cast
from headrace.verify.tdengine.fill import FillColumn, Range, fill_windows, time_range
from headrace.verify.tdengine.frames import Frame
from headrace.verify.tdengine.grouping import (
    Groups,
    Key,
    aggregate_calls,
    comparison_mode,
    expand_stars,
    find_selection,
    ordering_position,
    resolve_keys,
)
from headrace.verify.tdengine.interp import AT, Points, uses_interp
from headrace.verify.tdengine.operators import select_value
from headrace.verify.tdengine.series import RANK, SERIES, VALUE
from headrace.verify.tdengine.windows import Grid, assign_windows, true_for_condition
from headrace.verify.values import Value, unsupported

Column = Callable[[Expression, str], FillColumn]


@dataclass(slots=True)
class _Computed:
    """What a SELECT computes before DISTINCT, ORDER BY and LIMIT.

    Attributes:
        hidden: Columns for the ORDER BY expressions that are not in the select list.
        natural: The columns that order rows without ORDER BY: group and time; the first `keys` of them tell groups apart.
    """

    relation: str
    outputs: list[FillColumn]
    hidden: list[FillColumn]
    natural: list[str]
    keys: int
    members: Members | None = None


@dataclass(slots=True)
class Select:
    """One SELECT over a frame."""

    steps: Steps
    query: Query
    frame: Frame
    rows: Compiler
    stream: bool

    def answer(self) -> Answer:
        """Compute the SELECT."""
        items = expand_stars(self.query.items, self.frame)
        comparisons = [comparison_mode(item.expression) for item in items]
        keys = resolve_keys(self.query, items, self.frame, self.rows)
        nodes = [item.expression for item in items] + [ordering.expression for ordering in self.query.order_by]
        if uses_interp(items):
            computed = self._interpolated(items, keys)
        elif self.query.window or self.query.group_by or aggregate_calls(*nodes):
            computed = self._grouped(items, keys)
        else:
            computed = self._plain(items, keys, nodes)
        outputs = tuple(
            Output(output.column, item.name, output.type, comparison)
            for output, item, comparison in zip(computed.outputs, items, comparisons, strict=True)
        )
        return self._sorted_and_limited(computed, items, outputs)

    def filter_rows(self, keys: Sequence[Key], extra: Sequence[str] = ()) -> str:
        """Compute the rows that pass WHERE, with keys, the instant as `_ts`, and the columns in `extra`."""
        where = f" WHERE {self.rows.condition(self.query.where)}" if self.query.where is not None else ""
        columns = ["*", *_key_columns(keys)]
        columns += [f"{self.frame.time.sql} AS {TS}"] if self.frame.time is not None else []
        filtered = self.steps.step("rows", f"SELECT {', '.join(columns)} FROM {self.frame.relation}{where}")
        return self.steps.step("extended", f"SELECT {', '.join(['*', *extra])} FROM {filtered}") if extra else filtered

    def _columns(self, items: Sequence[SelectItem], make: Column) -> tuple[list[FillColumn], list[FillColumn]]:
        """Return the columns of the select list, and those of the ORDER BY expressions that are not in it."""
        outputs = [make(item.expression, f"o{number}") for number, item in enumerate(items)]
        nodes = [ordering.expression for ordering in self.query.order_by]
        missing = [node for node in nodes if ordering_position(node, items) is None]
        return outputs, [make(node, f"h{number}") for number, node in enumerate(missing)]

    def _interpolated(self, items: Sequence[SelectItem], keys: list[Key]) -> _Computed:
        points = Points(self, keys)
        compiler = points.compiler
        outputs, hidden = self._columns(items, lambda node, column: FillColumn.of(column, select_value(compiler, node)))
        natural = [*(key.column for key in keys), AT]
        selected = ", ".join([*natural, *(output.selected for output in [*outputs, *hidden])])
        relation = self.steps.step("points", f"SELECT {selected} FROM {points.compute()}")
        return _Computed(relation, outputs, hidden, natural, len(keys))

    def _grouped(self, items: Sequence[SelectItem], keys: list[Key]) -> _Computed:
        query, nodes = self.query, [item.expression for item in items]
        groups = Groups(query, self.frame, self.rows, keys, find_selection(nodes), self.stream)
        compiler = replace(self.rows, leaf=groups.leaf)

        def column_of(node: Expression, column: str) -> FillColumn:
            groups.depends_on_rows = False
            value = select_value(compiler, node)
            return FillColumn.of(column, value, is_filled=groups.depends_on_rows)

        outputs, hidden = self._columns(items, column_of)
        conditions = [] if query.having is None else [compiler.condition(query.having)]
        always_a_row = any(call.function in ROW_FOR_NO_INPUT for call in aggregate_calls(*nodes))
        if not keys and query.window is None and not always_a_row:
            conditions.append(f"{groups.column('count(*)')} > 0")
        rows = self.filter_rows(keys, [f"{sql} AS {name}" for sql, name in groups.row_columns.items()])
        columns = [key.column for key in groups.keys]
        members = self._members(rows, columns)
        relation = self._windows(groups, members, columns, conditions, [*outputs, *hidden])
        relation = self._filled(groups, compiler, relation, [*outputs, *hidden])
        natural = columns + ([START] if query.window is not None else [])
        return _Computed(relation, outputs, hidden, natural, len(columns), self._members_of(members, columns))

    def _members(self, rows: str, keys: Sequence[str]) -> str:
        """Assign rows to windows; a row in several windows is repeated."""
        if self.query.window is None:
            return rows
        if self.frame.time is None:
            raise ProgrammingError("a window needs a source with a timestamp column")
        partition = Partition(tuple(keys), self.frame.order)
        return self.steps.step("members", assign_windows(self.query.window, rows, partition, self.rows))

    def _members_of(self, relation: str, keys: Sequence[str]) -> Members:
        """Return how to find the rows behind a window or group. The rows of DISTINCT do not tell their groups."""
        tests = [f"m.{column} IS NOT DISTINCT FROM (SELECT {column} FROM {{row}})" for column in keys]
        if self.query.window is not None:
            tests += [f"m.{START} >= (SELECT {START} FROM {{row}})", f"m.{END} <= (SELECT {END} FROM {{row}})"]
        columns = tuple((column.name, column.sql, column.type) for column in self.frame.columns)
        return Members(relation, columns, ("false",) if self.query.distinct and tests else tuple(tests))

    def _windows(
        self, groups: Groups, members: str, keys: Sequence[str], conditions: list[str], outputs: Sequence[FillColumn]
    ) -> str:
        window = self.query.window
        ends = [] if window is None else [START, END]
        by = [*keys, *([WINDOW] if window is not None else [])]
        edges = [] if window is None else [f"min({START}) AS {START}", f"max({END}) AS {END}"]
        relation = self.steps.groups(members, by, groups.columns, edges)
        relation = self._with_subtables(groups, relation, members)
        conditions = conditions + ([] if window is None else true_for_condition(window, self.rows))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        names = [*keys, *ends, *(output.selected for output in outputs)]
        return self.steps.step("windows", f"SELECT {', '.join(names)} FROM {relation}{where}")

    def _with_subtables(self, groups: Groups, relation: str, members: str) -> str:
        """Add groups for subtables without rows, if rows are counted by tags and `tbname` alone."""
        if not groups.counts_subtables:
            return relation
        tests = [self.rows.condition(part) for part in conjuncts(self.query.where) if self.frame.is_of_subtable(part)]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        columns = ", ".join(key.column for key in groups.keys)
        missing = f"SELECT {', '.join(_key_columns(groups.keys))} FROM {self.frame.subtables}{where}"
        aggregates = ", ".join(f"{sql} AS {name}" for sql, name in groups.columns.items())
        added = (
            f"(SELECT * FROM ({missing} EXCEPT SELECT {columns} FROM {relation}), (SELECT {aggregates} FROM {members} WHERE false))"
        )
        return self.steps.step("groups", f"SELECT * FROM {relation} UNION ALL {added}")

    def _filled(self, groups: Groups, compiler: Compiler, relation: str, outputs: Sequence[FillColumn]) -> str:
        fill, window = self.query.fill, self.query.window
        if fill is None or fill.mode is FillMode.NONE:
            return relation
        if not isinstance(window, IntervalClause):
            raise ProgrammingError("FILL requires INTERVAL")
        estimated = any(comparison_mode(item.expression) is ComparisonMode.IN_RANGE for item in self.query.items)
        if estimated and fill.mode not in (FillMode.PREV, FillMode.NEXT, FillMode.NULL, FillMode.NULL_F):
            raise unsupported(f"FILL({fill.mode}) of an estimate")
        span = Range() if self.stream else time_range(self.query.where, self.frame, self.rows)
        if fill.mode in (FillMode.VALUE, FillMode.VALUE_F):
            outputs = _with_constants(fill.values, compiler, outputs)
        keys = tuple(key.column for key in groups.keys)
        return fill_windows(self.steps, fill, Grid.of(window, self.rows), span, relation, keys, outputs, stream=self.stream)

    def _plain(self, items: Sequence[SelectItem], keys: list[Key], nodes: Iterable[Expression]) -> _Computed:
        calls = {call for node in nodes for call in calls_of(node, *SERIES, "sample")}
        compiler, relation, order = self._with_series(calls, keys) if calls else (self.rows, self.filter_rows(keys), None)
        outputs, hidden = self._columns(items, lambda node, column: FillColumn.of(column, select_value(compiler, node)))
        by_time = self.frame.order if self.frame.time is not None else ()
        natural = [*(key.column for key in keys), *([order] if order else []), *by_time]
        columns = [output.selected for output in [*outputs, *hidden]] + [f"{sql} AS n{at}" for at, sql in enumerate(natural)]
        selected = self.steps.step("selected", f"SELECT {', '.join(columns)} FROM {relation}")
        return _Computed(selected, outputs, hidden, [f"n{at}" for at in range(len(natural))], len(keys))

    def _with_series(self, calls: set[Call], keys: list[Key]) -> tuple[Compiler, str, str | None]:
        """Compute a function of adjacent rows; return a compiler that resolves it, the relation, and its order unless by time."""
        if len(calls) > 1 or self.frame.time is None:
            raise unsupported("more than one function of adjacent rows in a query, or one without a timestamp")
        (call,) = calls
        if call.function not in SERIES:
            raise unsupported(f"the function {call.function}")
        partition = Partition(tuple(key.column for key in keys), self.frame.order)
        x, constants = self.rows.value(call.arguments[0]), constants_of(self.rows, call)
        result = SERIES[call.function](RowsCall(call.function, x, constants, partition, self.rows))
        relation = self.filter_rows(keys)
        for label, where in (
            ("only", result.row_filter and f"SELECT * FROM {{}} WHERE {result.row_filter}"),
            ("ranks", result.rank and f"SELECT *, {result.rank} AS {RANK} FROM {{}}"),
            ("series", f"SELECT *, {result.value} AS {VALUE} FROM {{}}"),
            ("kept", result.result_filter and f"SELECT * FROM {{}} WHERE {result.result_filter}"),
        ):
            relation = self.steps.step(label, where.replace("{}", relation)) if where else relation

        def leaf(node: Expression) -> Value | None:
            return Value(VALUE, result.type) if node == call else self.rows.leaf(node)

        return replace(self.rows, leaf=leaf), relation, result.order

    def _sorted_and_limited(self, computed: _Computed, items: Sequence[SelectItem], outputs: tuple[Output, ...]) -> Answer:
        """Apply DISTINCT, SLIMIT, ORDER BY and LIMIT; without ORDER BY rows come by group and time."""
        query, steps, relation, natural = self.query, self.steps, computed.relation, computed.natural
        sorts, by = order_terms(query.order_by, items, computed.hidden)
        if query.distinct:
            natural = [output.column for output in outputs]
            relation = steps.step("distinct", f"SELECT DISTINCT {', '.join(natural)} FROM {relation}")
        groups = natural[: computed.keys]
        if query.series_limit is not None and groups:
            rank = f"dense_rank() OVER (ORDER BY {', '.join(_ascending(groups))})"
            relation = self._limited("some", relation, rank, query.series_offset, query.series_limit)
        order, limit, offset = [*by, *_ascending(natural)], query.limit, query.offset
        if query.partition_by and limit is not None and not query.order_by and not query.distinct:
            rank = f"row_number() {Partition(tuple(groups), tuple(_ascending(natural))).over()}"
            relation = self._limited("limited", relation, rank, offset, limit)
            limit = offset = None
        relation = steps.sorted(relation, order, limit, offset)
        precision, windows = self.frame.precision, query.window is not None
        return Answer(relation, outputs, precision, self.frame.timezone, sorts, computed.members, windows)

    def _limited(self, label: str, relation: str, rank: str, offset: int | None, limit: int) -> str:
        where = f"_rank > {offset or 0} AND _rank <= {(offset or 0) + limit}"
        return self.steps.step(label, f"SELECT * EXCLUDE (_rank) FROM (SELECT *, {rank} AS _rank FROM {relation}) WHERE {where}")


def order_terms(
    orderings: Sequence[Ordering], items: Sequence[SelectItem], hidden: Sequence[FillColumn]
) -> tuple[tuple[int, ...], list[str]]:
    """Return the output positions that ORDER BY names, and its SQL terms: NULL is less than any value, unless it says otherwise."""
    positions = [ordering_position(ordering.expression, items) for ordering in orderings]
    remaining = iter(hidden)
    columns = [next(remaining).column if position is None else f"o{position}" for position in positions]
    terms = [
        order_term(
            column,
            descending=ordering.descending,
            nulls_first=not ordering.descending if ordering.nulls_first is None else ordering.nulls_first,
        )
        for column, ordering in zip(columns, orderings, strict=True)
    ]
    return tuple(position for position in positions if position is not None), terms


def _key_columns(keys: Iterable[Key]) -> list[str]:
    return [f"{key.value.sql} AS {key.column}" for key in keys]


def _ascending(columns: Sequence[str]) -> list[str]:
    return [order_term(column) for column in columns]


def _with_constants(values: Iterable[Expression], compiler: Compiler, outputs: Sequence[FillColumn]) -> list[FillColumn]:
    nodes = iter(values)
    return [
        replace(output, constant=compile_cast(compiler, compiler.value(next(nodes)), output.type).sql)
        if output.is_filled and output.column.startswith("o")
        else output
        for output in outputs
    ]
