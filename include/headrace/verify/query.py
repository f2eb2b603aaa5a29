"""Compute a SELECT in DuckDB step by step, each step a temporary table, so that the rows behind a window can be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.queries import (
    FillClause,
    FillMode,
    IntervalClause,
    Join,
    Ordering,
    Query,
    QuerySource,
    SelectItem,
    Source,
    TableSource,
    Union,
)
from headrace.model.tables import TBNAME
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP, DataType
from headrace.verify import asof, grouping, series, windows, zones
from headrace.verify.aggregates import END, ROW_FOR_NO_INPUT, START, TS, ComparisonMode
from headrace.verify.expressions import Compiler
from headrace.verify.fill import FillColumn, Range, fill_windows, time_range
from headrace.verify.frames import (
    Column,
    Frame,
    Lookup,
    conjuncts,
    join_frame,
    on_frame,
    subtables_sql,
    table_frame,
    table_sql,
    without_timestamps,
)
from headrace.verify.grouping import Groups, Key
from headrace.verify.interp import interpolate_points, uses_interp
from headrace.verify.values import Value, common_type, convert, unsupported

if TYPE_CHECKING:
    import duckdb

LABELS = ("inner", "left", "right", "full", "left semi", "left anti")


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result: its name `o…` in the relation, its own name, its type, and how it is compared."""

    column: str
    name: str
    type: DataType
    comparison: ComparisonMode = ComparisonMode.EXACT


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a SELECT: a relation with columns `o…`, in the order of `_n`.

    Attributes:
        relation: The DuckDB relation.
        outputs: Its columns.
        precision: The unit of its ticks.
        timezone: The time zone of its wall clock.
        sorted: Positions of the columns in ORDER BY.
        members: A relation with the rows behind the windows or groups.
        same: The columns that assign a row of `members` to its window or group.
        shown: The columns of `members` to show, as (name, column, type).
    """

    relation: str
    outputs: tuple[Output, ...]
    precision: Precision
    timezone: str
    sorted: tuple[int, ...] = ()
    members: str | None = None
    member_keys: tuple[str, ...] = ()
    member_columns: tuple[tuple[str, str, DataType], ...] = ()


@dataclass(slots=True)
class Recomputation:
    """Answers queries over stored tables in one DuckDB connection. With `stream`, as a stream would."""

    connection: duckdb.DuckDBPyConnection
    lookup: Lookup
    timezone: str
    stream: bool = False
    steps: int = 0
    loaded: dict[str, str] = field(default_factory=dict)
    subtables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for macro in zones.MACROS:
            self.connection.execute(macro)

    def step(self, label: str, sql: str) -> str:
        """Compute a relation and return its name."""
        self.steps += 1
        name = f"s{self.steps}_{label}"
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def answer(self, query: Query | Union) -> QueryResult:
        """Compute a query."""
        if isinstance(query, Union):
            return self.union(query)
        frame = self.frame(query.source)
        return Select(self, query, frame, row_compiler(frame)).answer()

    def frame(self, source: Source | None) -> Frame:
        """Compute what FROM reads."""
        match source:
            case None:
                return Frame("(SELECT 1 AS nothing)", (), Precision.MILLISECOND, self.timezone)
            case TableSource():
                return self.table(source)
            case QuerySource(query=query, alias=alias):
                return subquery_frame(self.answer(query), alias)
            case Join():
                return self.join(source)

    def table(self, source: TableSource) -> Frame:
        """Load a table once per query."""
        name = str(source.name)
        stored = self.lookup(source.name)
        if name not in self.loaded:
            for side, read in (("rows_in", stored.rows), ("tags_in", stored.tags)):
                self.connection.register(side, without_timestamps(read()))
            self.loaded[name] = self.step("table", table_sql(stored, "rows_in", "tags_in"))
            self.subtables[name] = self.step("subtables", subtables_sql(stored, "rows_in", "tags_in"))
            self.connection.unregister("rows_in")
            self.connection.unregister("tags_in")
        return table_frame(stored, self.loaded[name], source.alias, self.subtables[name])

    def join(self, join: Join) -> Frame:
        """Compute a join."""
        if join.kind not in (*LABELS, *asof.KINDS):
            raise unsupported(f"{join.kind.upper()} JOIN")
        left, right = self.frame(join.left), self.frame(join.right)
        inside = asof.asof_frame(join, left, right) if join.kind in asof.KINDS else on_frame(left, right)
        on = "true" if join.condition is None else row_compiler(inside).condition(join.condition)
        joined = f"{join.kind} JOIN {right.relation} r ON {on}"
        if join.kind in ("left semi", "left anti"):
            word = "" if join.kind.endswith("semi") else "NOT "
            joined = f"WHERE {word}EXISTS (SELECT 1 FROM {right.relation} r WHERE {on})"
            inside = replace(inside, columns=inside.columns[: len(left.columns)])
        columns = ", ".join(f"{column.sql} AS c{number}" for number, column in enumerate(inside.columns))
        source = f"{left.relation} l {joined}"
        if join.kind in asof.KINDS:
            source = asof.asof_sql(join, (left, right), inside, on)
        return join_frame(inside, self.step("join", f"SELECT {columns} FROM {source}"))

    def union(self, query: Union) -> QueryResult:
        """Combine both sides by position, converted to common types."""
        left, right = self.answer(query.left), self.answer(query.right)
        outputs = tuple(
            replace(left_output, type=common_type([left_output.type, right_output.type]) or left_output.type, column=f"o{number}")
            for number, (left_output, right_output) in enumerate(zip(left.outputs, right.outputs, strict=True))
        )
        if any(output.comparison is not ComparisonMode.EXACT for output in (*left.outputs, *right.outputs)):
            raise unsupported("estimates in a UNION")
        selects = [
            "SELECT "
            + ", ".join(
                f"{convert(Value(side_output.column, side_output.type), output.type)} AS {output.column}"
                for side_output, output in zip(side.outputs, outputs, strict=True)
            )
            + f" FROM {side.relation}"
            for side in (left, right)
        ]
        combined = self.step("union", f" UNION {'ALL ' if query.all else ''}".join(selects))
        items = [SelectItem(ColumnRef(output.name), output.name) for output in outputs]
        sorts = [grouping.ordering_position(ordering.expression, items) for ordering in query.order_by]
        if None in sorts:
            raise ProgrammingError("ORDER BY of a UNION takes names and positions of its columns")
        if query.limit is not None and not query.order_by:
            raise unsupported("LIMIT of a UNION without ORDER BY")
        order = [order_term(f"o{position}", ordering) for position, ordering in zip(sorts, query.order_by, strict=True)]
        relation = number_rows(self, combined, order, query.limit, query.offset, "*")
        positions = tuple(position for position in sorts if position is not None)
        return QueryResult(relation, outputs, left.precision, left.timezone, positions)


def subquery_frame(answer: QueryResult, alias: str | None) -> Frame:
    """Return the frame of a sub-query; its first timestamp column is its time line."""
    if any(output.comparison is not ComparisonMode.EXACT for output in answer.outputs):
        raise unsupported("an estimate in a sub-query")
    columns = tuple(Column(output.name, alias, output.column, output.type) for output in answer.outputs)
    time = next((column for column in columns if column.type == TIMESTAMP), None)
    tbname = next((column for column in columns if column.name == TBNAME), None)
    # The relation also has the sub-query's own keys and windows, which are not columns of its result.
    relation = f"(SELECT {', '.join(column.sql for column in columns)} FROM {answer.relation})"
    return Frame(relation, columns, answer.precision, answer.timezone, time, tbname)


def row_compiler(frame: Frame) -> Compiler:
    """Return a compiler of expressions over the rows of a frame."""
    return Compiler(grouping.row_leaf(frame), frame.precision, frame.timezone)


def order_term(column: str, ordering: Ordering) -> str:
    """Format an ORDER BY column: NULL first if ascending, last if descending, unless it says otherwise."""
    nulls_first = not ordering.descending if ordering.nulls_first is None else ordering.nulls_first
    return f"{column} {'DESC' if ordering.descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def number_rows(
    work: Recomputation, relation: str, order: Sequence[str], limit: int | None, offset: int | None, columns: str
) -> str:
    """Sort a relation, number its rows as `_n`, and apply LIMIT and OFFSET."""
    by = f"ORDER BY {', '.join(order)}" if order else ""
    limits = (f" LIMIT {limit}" if limit is not None else "") + (f" OFFSET {offset}" if offset else "")
    return work.step("answer", f"SELECT {columns}, row_number() OVER ({by}) AS _n FROM {relation} {by}{limits}")


@dataclass(slots=True)
class Select:
    """One SELECT over a frame."""

    work: Recomputation
    query: Query
    frame: Frame
    rows: Compiler

    def answer(self) -> QueryResult:
        """Compute the SELECT."""
        items = grouping.expand_stars(self.query.items, self.frame)
        for item in items:
            grouping.comparison_mode(item.expression)
        keys = grouping.resolve_keys(self.query, items, self.frame, self.rows)
        if uses_interp(items):
            points = interpolate_points(self, items, keys)
            return self.sort_and_limit(points.relation, items, points.outputs, points.hidden, points.natural, len(keys))
        if grouping.has_aggregates(self.query, items):
            return self.compute_groups(items, keys)
        return self.compute_plain(items, keys)

    def filter_rows(self, keys: Sequence[Key], extra: Sequence[str] = ()) -> str:
        """Compute the rows that pass WHERE, with keys, the instant as `_ts`, and the columns in `extra`."""
        where = f" WHERE {self.rows.condition(self.query.where)}" if self.query.where is not None else ""
        columns = [f"{key.value.sql} AS {key.column}" for key in keys]
        columns += [f"{self.frame.time.sql} AS {TS}"] if self.frame.time is not None else []
        filtered = self.work.step("rows", f"SELECT {', '.join(['*', *columns])} FROM {self.frame.relation}{where}")
        return self.work.step("extended", f"SELECT {', '.join(['*', *extra])} FROM {filtered}") if extra else filtered

    def compute_groups(self, items: Sequence[SelectItem], keys: list[Key]) -> QueryResult:
        """Compute a query with a window, GROUP BY or aggregates."""
        groups = Groups(
            self.query, self.frame, self.rows, keys, grouping.find_selection([item.expression for item in items]), self.work.stream
        )
        compiler = replace(self.rows, leaf=groups.leaf)
        outputs = [self.output(groups, compiler, item.expression, f"o{number}") for number, item in enumerate(items)]
        hidden = self.hidden(items, lambda node, column: self.output(groups, compiler, node, column))
        conditions = [] if self.query.having is None else [compiler.condition(self.query.having)]
        if not keys and self.query.window is None and not self.always_a_row(items):
            conditions.append(f"{groups.column('count(*)')} > 0")
        rows = self.filter_rows(keys, [f"{sql} AS {name}" for sql, name in groups.row_columns.items()])
        columns = [key.column for key in groups.keys]
        members = self.members(rows, columns)
        relation = self.compute_outputs(groups, members, columns, conditions, [*outputs, *hidden])
        relation = self.fill(groups, compiler, relation, [*outputs, *hidden])
        natural = columns + ([START] if self.query.window is not None else [])
        answer = self.sort_and_limit(relation, items, outputs, hidden, natural)
        member_columns = tuple((column.name, column.sql, column.type) for column in self.frame.columns)
        return replace(answer, members=members, member_keys=tuple(natural), member_columns=member_columns)

    def output(self, groups: Groups, compiler: Compiler, node: Expression, column: str) -> FillColumn:
        """Compile an item over groups."""
        groups.depends_on_rows = False
        value = compiler.select_value(node)
        return FillColumn.of(column, value, is_filled=groups.depends_on_rows)

    def members(self, rows: str, keys: Sequence[str]) -> str:
        """Assign rows to windows; a row in several windows is repeated."""
        if self.query.window is None:
            return rows
        if self.frame.time is None:
            raise ProgrammingError("a window needs a source with a timestamp column")
        return self.work.step(
            "members", windows.assign_windows(self.query.window, windows.OrderedRows(rows, keys, self.frame.order, self.rows))
        )

    def compute_outputs(
        self, groups: Groups, members: str, keys: Sequence[str], conditions: list[str], outputs: Sequence[FillColumn]
    ) -> str:
        """Compute keys, the window's ends and the outputs of each group."""
        window = self.query.window
        by = [*keys, windows.WINDOW] if window is not None else list(keys)
        ends = [f"min({START}) AS {START}", f"max({END}) AS {END}"] if window is not None else []
        columns = [f"{sql} AS {name}" for sql, name in groups.columns.items()]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        relation = self.work.step("groups", f"SELECT {', '.join([*keys, *ends, *columns]) or '1'} FROM {members}{group}")
        relation = self.with_subtables(groups, relation, members, columns)
        if window is not None:
            true_for = windows.true_for_condition(window, windows.OrderedRows(relation, keys, (TS,), self.rows))
            conditions = [*conditions, *([true_for] if true_for else [])]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        names = [*keys, *([START, END] if window is not None else []), *(f"{output.sql} AS {output.column}" for output in outputs)]
        return self.work.step("windows", f"SELECT {', '.join(names)} FROM {relation}{where}")

    def with_subtables(self, groups: Groups, relation: str, members: str, aggregates: Sequence[str]) -> str:
        """Add groups for subtables without rows, if rows are counted by tags and `tbname` alone."""
        if not groups.counts_subtables:
            return relation
        tests = [self.rows.condition(part) for part in conjuncts(self.query.where) if self.frame.is_of_subtable(part)]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        columns = ", ".join(key.column for key in groups.keys)
        keys = ", ".join(f"{key.value.sql} AS {key.column}" for key in groups.keys)
        missing = f"SELECT {keys} FROM {self.frame.subtables}{where} EXCEPT SELECT {columns} FROM {relation}"
        empty_group = f"SELECT {', '.join(aggregates)} FROM {members} WHERE false"
        return self.work.step("groups", f"SELECT * FROM {relation} UNION ALL SELECT * FROM ({missing}), ({empty_group})")

    def fill(self, groups: Groups, compiler: Compiler, relation: str, outputs: Sequence[FillColumn]) -> str:
        """Apply FILL to the windows."""
        fill, window = self.query.fill, self.query.window
        if fill is None or fill.mode is FillMode.NONE:
            return relation
        if not isinstance(window, IntervalClause):
            raise ProgrammingError("FILL requires INTERVAL")
        grid = windows.Grid.of(window, self.rows)
        keys = [key.column for key in groups.keys]
        if fill.mode not in (FillMode.PREV, FillMode.NEXT, FillMode.NULL, FillMode.NULL_F) and any(
            grouping.comparison_mode(item.expression) is ComparisonMode.IN_RANGE for item in self.query.items
        ):
            raise unsupported(f"FILL({fill.mode}) of an estimate")
        span = Range() if self.work.stream else time_range(self.query.where, self.frame, self.rows)
        columns = with_constants(fill, compiler, outputs)
        return fill_windows(fill, grid, span, relation, keys, columns, self.work.step, stream=self.work.stream)

    def compute_plain(self, items: Sequence[SelectItem], keys: list[Key]) -> QueryResult:
        """Compute a query without a window and aggregates."""
        nodes = [item.expression for item in items] + [ordering.expression for ordering in self.query.order_by]
        calls = {call for node in nodes for call in grouping.series_calls(node)}
        compiler, relation, order = self.rows, "", None
        if calls:
            compiler, relation, order = self.with_series(calls, keys)
        else:
            relation = self.filter_rows(keys)

        def column_of(node: Expression, column: str) -> FillColumn:
            return FillColumn.of(column, compiler.select_value(node))

        outputs = [column_of(item.expression, f"o{number}") for number, item in enumerate(items)]
        hidden = self.hidden(items, column_of)
        by_time = self.frame.order if self.frame.time is not None else ()
        natural = [*(key.column for key in keys), *([order] if order else []), *by_time]
        extra = [f"{sql} AS n{number}" for number, sql in enumerate(natural)]
        columns = ", ".join([*(f"{output.sql} AS {output.column}" for output in [*outputs, *hidden]), *extra])
        selected = self.work.step("selected", f"SELECT {columns} FROM {relation}")
        return self.sort_and_limit(selected, items, outputs, hidden, [f"n{number}" for number in range(len(natural))], len(keys))

    def with_series(self, calls: set[Call], keys: list[Key]) -> tuple[Compiler, str, str | None]:
        """Compute the values of a function of adjacent rows.

        Returns:
            A compiler that resolves its call, the relation, and the order of its rows if that is not by time.
        """
        if len(calls) > 1 or self.frame.time is None:
            raise unsupported("more than one function of adjacent rows in a query, or one without a timestamp")
        call = next(iter(calls))
        if call.function not in series.SERIES:
            raise unsupported(f"the function {call.function}")
        x = self.rows.value(call.arguments[0])
        columns = tuple(key.column for key in keys)
        use = series.SeriesCall(
            call.function, x, grouping.constant_arguments(self.rows, call), columns, self.frame.order, self.rows.precision
        )
        result = series.SERIES[call.function](use)
        relation = self.filter_rows(keys)
        if result.row_filter:
            relation = self.work.step("only", f"SELECT * FROM {relation} WHERE {result.row_filter}")
        if result.rank:
            relation = self.work.step("ranks", f"SELECT *, {result.rank} AS {series.RANK} FROM {relation}")
        relation = self.work.step("series", f"SELECT *, {result.value} AS {series.VALUE} FROM {relation}")
        if result.result_filter:
            relation = self.work.step("kept", f"SELECT * FROM {relation} WHERE {result.result_filter}")

        def leaf(node: Expression) -> Value | None:
            return Value(series.VALUE, result.type) if node == call else self.rows.leaf(node)

        return replace(self.rows, leaf=leaf), relation, result.order

    def hidden(self, items: Sequence[SelectItem], make: Callable[[Expression, str], FillColumn]) -> list[FillColumn]:
        """Return columns for the ORDER BY expressions that are not in the select list."""
        nodes = [ordering.expression for ordering in self.query.order_by]
        missing = [node for node in nodes if grouping.ordering_position(node, items) is None]
        return [make(node, f"h{number}") for number, node in enumerate(missing)]

    def always_a_row(self, items: Sequence[SelectItem]) -> bool:
        """Return True if an aggregate gives a row even for no rows."""
        return any(call.function in ROW_FOR_NO_INPUT for item in items for call in grouping.aggregate_calls(item.expression))

    def sort_and_limit(
        self,
        relation: str,
        items: Sequence[SelectItem],
        outputs: Sequence[FillColumn],
        hidden: Sequence[FillColumn],
        natural: Sequence[str],
        keys: int | None = None,
    ) -> QueryResult:
        """Apply DISTINCT, SLIMIT, ORDER BY and LIMIT; without ORDER BY rows come by group and time (`natural`)."""
        query, work = self.query, self.work
        count = len(natural) - (1 if query.window is not None else 0) if keys is None else keys
        columns = tuple(
            Output(output.column, item.name, output.type, grouping.comparison_mode(item.expression))
            for output, item in zip(outputs, items, strict=True)
        )
        sorts, by = self.order(items, hidden)
        if query.distinct:
            relation, natural = self.distinct(relation, columns)
        if query.series_limit is not None and count:
            first = query.series_offset or 0
            ranked = (
                f"SELECT *, dense_rank() OVER (ORDER BY {', '.join(ascending_terms(natural[:count]))}) AS _series FROM {relation}"
            )
            is_selected = f"_series > {first} AND _series <= {first + query.series_limit}"
            relation = work.step("some", f"SELECT * EXCLUDE (_series) FROM ({ranked}) WHERE {is_selected}")
        order = [*by, *ascending_terms(natural)]
        if query.partition_by and query.limit is not None and not query.order_by and not query.distinct:
            relation = self.limit_per_partition(relation, natural, count)
        else:
            relation = number_rows(work, relation, order, query.limit, query.offset, "*")
        positions = tuple(position for position in sorts if position is not None)
        return QueryResult(relation, columns, self.frame.precision, self.frame.timezone, positions)

    def order(self, items: Sequence[SelectItem], hidden: Sequence[FillColumn]) -> tuple[list[int | None], list[str]]:
        """Return the output positions that ORDER BY names (None for hidden columns) and its SQL terms."""
        sorts = [grouping.ordering_position(ordering.expression, items) for ordering in self.query.order_by]
        remaining = iter(hidden)
        columns = [next(remaining).column if position is None else f"o{position}" for position in sorts]
        return sorts, [order_term(column, ordering) for column, ordering in zip(columns, self.query.order_by, strict=True)]

    def distinct(self, relation: str, outputs: Sequence[Output]) -> tuple[str, list[str]]:
        """Apply DISTINCT; return the relation and its columns."""
        columns = [output.column for output in outputs]
        return self.work.step("distinct", f"SELECT DISTINCT {', '.join(columns)} FROM {relation}"), columns

    def limit_per_partition(self, relation: str, natural: Sequence[str], count: int) -> str:
        """Apply LIMIT and OFFSET to each partition."""
        first, by = self.query.offset or 0, ", ".join(ascending_terms(natural))
        keys = ", ".join(natural[:count])
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {by}) AS _rank FROM {relation}"
        is_selected = f"_rank > {first} AND _rank <= {first + (self.query.limit or 0)}"
        limited = self.work.step("limited", f"SELECT * EXCLUDE (_rank) FROM ({ranked}) WHERE {is_selected}")
        return number_rows(self.work, limited, ascending_terms(natural), None, None, "*")


def ascending_terms(columns: Sequence[str]) -> list[str]:
    """Return ORDER BY terms that sort columns ascending, NULL first."""
    return [f"{column} ASC NULLS FIRST" for column in columns]


def with_constants(fill: FillClause, compiler: Compiler, outputs: Sequence[FillColumn]) -> list[FillColumn]:
    """Give each output that depends on rows its constant of FILL(VALUE, …)."""
    if fill.mode not in (FillMode.VALUE, FillMode.VALUE_F):
        return list(outputs)
    nodes = iter(fill.values)
    with_constant: list[FillColumn] = []
    for output in outputs:
        node = next(nodes) if output.is_filled and output.column.startswith("o") else None
        constant = "NULL" if node is None else compiler.cast(compiler.value(node), output.type).sql
        with_constant.append(replace(output, constant=constant))
    return with_constant
