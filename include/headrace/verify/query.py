"""A SELECT in DuckDB, step by step: each step is a temporary table, so that what a window was made of can be shown."""

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
from headrace.verify import grouping, series, windows, zones
from headrace.verify.aggregates import ALWAYS_A_ROW, END, START, TS, Likeness
from headrace.verify.expressions import Compiler
from headrace.verify.fill import Filled, filled, time_range
from headrace.verify.frames import (
    Column,
    Frame,
    Lookup,
    conjuncts,
    inside_join,
    of_join,
    subtables_sql,
    table_frame,
    table_sql,
    without_timestamps,
)
from headrace.verify.grouping import Groups, Key
from headrace.verify.interp import interpolated, uses_interp
from headrace.verify.values import Value, common, converted, unknown

if TYPE_CHECKING:
    import duckdb

LABELS = ("inner", "left", "right", "full", "left semi", "left anti")


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the answer: its place `o…` in the relation, its name, its type, how it is compared."""

    column: str
    name: str
    type: DataType
    likeness: Likeness = Likeness.EXACT


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a SELECT: a relation with `o…`, in the order of `_n`.

    `sorted` are the places of the columns that ORDER BY names; `members` is a relation with the rows that the windows or groups are
    made of, told by the columns `same`; `shown` are those columns of it that a user knows, by name.
    """

    relation: str
    outputs: tuple[Output, ...]
    precision: Precision
    timezone: str
    sorted: tuple[int, ...] = ()
    members: str | None = None
    same: tuple[str, ...] = ()
    shown: tuple[tuple[str, str, DataType], ...] = ()


@dataclass(slots=True)
class Recomputation:
    """Answers queries over stored tables in one DuckDB connection. `stream`: as a stream does."""

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
        """Compute a relation; its name."""
        self.steps += 1
        name = f"s{self.steps}_{label}"
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def answer(self, query: Query | Union) -> Answer:
        """The rows of a query."""
        if isinstance(query, Union):
            return self.union(query)
        frame = self.frame(query.source)
        return Select(self, query, frame, compiler_of(frame)).answer()

    def frame(self, source: Source | None) -> Frame:
        match source:
            case None:
                return Frame("(SELECT 1 AS nothing)", (), Precision.MILLISECOND, self.timezone)
            case TableSource():
                return self.table(source)
            case QuerySource(query=query, alias=alias):
                return of_answer(self.answer(query), alias)
            case Join():
                return self.join(source)

    def table(self, source: TableSource) -> Frame:
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
        if join.kind not in LABELS:
            raise unknown(f"{join.kind.upper()} JOIN")
        left, right = self.frame(join.left), self.frame(join.right)
        inside = inside_join(left, right)
        on = "true" if join.condition is None else compiler_of(inside).condition(join.condition)
        joined = f"{join.kind} JOIN {right.relation} r ON {on}"
        if join.kind in ("left semi", "left anti"):
            word = "" if join.kind.endswith("semi") else "NOT "
            joined = f"WHERE {word}EXISTS (SELECT 1 FROM {right.relation} r WHERE {on})"
            inside = replace(inside, columns=inside.columns[: len(left.columns)])
        columns = ", ".join(f"{column.sql} AS c{number}" for number, column in enumerate(inside.columns))
        return of_join(inside, self.step("join", f"SELECT {columns} FROM {left.relation} l {joined}"))

    def union(self, query: Union) -> Answer:
        """Both sides by position, brought to common types."""
        left, right = self.answer(query.left), self.answer(query.right)
        outputs = tuple(
            replace(ours, type=common([ours.type, theirs.type]) or ours.type, column=f"o{number}")
            for number, (ours, theirs) in enumerate(zip(left.outputs, right.outputs, strict=True))
        )
        if any(output.likeness is not Likeness.EXACT for output in (*left.outputs, *right.outputs)):
            raise unknown("estimates in a UNION")
        selects = [
            "SELECT "
            + ", ".join(
                f"{converted(Value(own.column, own.type), of.type)} AS {of.column}"
                for own, of in zip(side.outputs, outputs, strict=True)
            )
            + f" FROM {side.relation}"
            for side in (left, right)
        ]
        found = self.step("union", f" UNION {'ALL ' if query.all else ''}".join(selects))
        items = [SelectItem(ColumnRef(output.name), output.name) for output in outputs]
        sorts = [grouping.sorted_place(ordering.expression, items) for ordering in query.order_by]
        if None in sorts:
            raise ProgrammingError("ORDER BY of a UNION takes names and positions of its columns")
        if query.limit is not None and not query.order_by:
            raise unknown("LIMIT of a UNION without ORDER BY")
        order = [direction(f"o{place}", each) for place, each in zip(sorts, query.order_by, strict=True)]
        relation = numbered(self, found, order, query.limit, query.offset, "*")
        return Answer(relation, outputs, left.precision, left.timezone, tuple(place for place in sorts if place is not None))


def of_answer(answer: Answer, alias: str | None) -> Frame:
    """A sub-query's columns; its first timestamp is its time line."""
    if any(output.likeness is not Likeness.EXACT for output in answer.outputs):
        raise unknown("an estimate in a sub-query")
    columns = tuple(Column(output.name, alias, output.column, output.type) for output in answer.outputs)
    time = next((column for column in columns if column.type == TIMESTAMP), None)
    tbname = next((column for column in columns if column.name == TBNAME), None)
    # Its own keys and windows are no columns of it.
    relation = f"(SELECT {', '.join(column.sql for column in columns)} FROM {answer.relation})"
    return Frame(relation, columns, answer.precision, answer.timezone, time, tbname)


def compiler_of(frame: Frame) -> Compiler:
    """Compiles expressions over the rows of a frame."""
    return Compiler(grouping.row_leaf(frame), frame.precision, frame.timezone)


def direction(column: str, ordering: Ordering) -> str:
    """A column of ORDER BY: NULL first where it ascends, last where it descends, unless it says otherwise."""
    nulls_first = not ordering.descending if ordering.nulls_first is None else ordering.nulls_first
    return f"{column} {'DESC' if ordering.descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def numbered(work: Recomputation, found: str, order: Sequence[str], limit: int | None, offset: int | None, columns: str) -> str:
    """The rows of a relation in order, as `_n`, cut to the limits."""
    by = f"ORDER BY {', '.join(order)}" if order else ""
    cut = (f" LIMIT {limit}" if limit is not None else "") + (f" OFFSET {offset}" if offset else "")
    return work.step("answer", f"SELECT {columns}, row_number() OVER ({by}) AS _n FROM {found} {by}{cut}")


@dataclass(slots=True)
class Select:
    """One SELECT over a frame."""

    work: Recomputation
    query: Query
    frame: Frame
    rows: Compiler

    def answer(self) -> Answer:
        items = grouping.expanded(self.query.items, self.frame)
        for item in items:
            grouping.likeness(item.expression)
        keys = grouping.keys_of(self.query, items, self.frame, self.rows)
        if uses_interp(items):
            points = interpolated(self, items, keys)
            return self.arranged(points.relation, items, points.outputs, points.hidden, points.natural, len(keys))
        if grouping.has_aggregates(self.query, items):
            return self.grouped(items, keys)
        return self.plain(items, keys)

    def kept(self, keys: Sequence[Key], also: Sequence[str] = ()) -> str:
        """The rows that pass WHERE, with keys and the instant as `_ts`, and further columns over them."""
        where = f" WHERE {self.rows.condition(self.query.where)}" if self.query.where is not None else ""
        columns = [f"{key.value.sql} AS {key.column}" for key in keys]
        columns += [f"{self.frame.time.sql} AS {TS}"] if self.frame.time is not None else []
        found = self.work.step("rows", f"SELECT {', '.join(['*', *columns])} FROM {self.frame.relation}{where}")
        return self.work.step("beside", f"SELECT {', '.join(['*', *also])} FROM {found}") if also else found

    def grouped(self, items: Sequence[SelectItem], keys: list[Key]) -> Answer:
        """A query with a window, GROUP BY or aggregates."""
        groups = Groups(
            self.query, self.frame, self.rows, keys, grouping.selection([item.expression for item in items]), self.work.stream
        )
        compiler = replace(self.rows, leaf=groups.leaf)
        outputs = [self.output(groups, compiler, item.expression, f"o{number}") for number, item in enumerate(items)]
        hidden = self.hidden(items, lambda node, column: self.output(groups, compiler, node, column))
        conditions = [] if self.query.having is None else [compiler.condition(self.query.having)]
        if not keys and self.query.window is None and not self.always_a_row(items):
            conditions.append(f"{groups.column('count(*)')} > 0")
        rows = self.kept(keys, [f"{sql} AS {name}" for sql, name in groups.beside.items()])
        columns = [key.column for key in groups.keys]
        members = self.members(rows, columns)
        finished = self.finished(groups, members, columns, conditions, [*outputs, *hidden])
        finished = self.fill(groups, compiler, finished, [*outputs, *hidden])
        natural = columns + ([START] if self.query.window is not None else [])
        answer = self.arranged(finished, items, outputs, hidden, natural)
        known = tuple((column.name, column.sql, column.type) for column in self.frame.columns)
        return replace(answer, members=members, same=tuple(natural), shown=known)

    def output(self, groups: Groups, compiler: Compiler, node: Expression, column: str) -> Filled:
        groups.touched = False
        value = compiler.shown(node)
        return Filled.of(column, value, fills=groups.touched)

    def members(self, rows: str, keys: Sequence[str]) -> str:
        """The rows in their windows, each as often as it is in one."""
        if self.query.window is None:
            return rows
        if self.frame.time is None:
            raise ProgrammingError("a window needs a source with a timestamp column")
        return self.work.step(
            "members", windows.placed(self.query.window, windows.OrderedRows(rows, keys, self.frame.order, self.rows))
        )

    def finished(self, groups: Groups, members: str, keys: Sequence[str], conditions: list[str], outputs: Sequence[Filled]) -> str:
        """Keys, the window's ends and the outputs of each group."""
        window = self.query.window
        by = [*keys, windows.NUMBER] if window is not None else list(keys)
        ends = [f"min({START}) AS {START}", f"max({END}) AS {END}"] if window is not None else []
        found = [f"{sql} AS {name}" for sql, name in groups.columns.items()]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        made = self.work.step("groups", f"SELECT {', '.join([*keys, *ends, *found]) or '1'} FROM {members}{group}")
        made = self.with_subtables(groups, made, members, found)
        if window is not None:
            rows = windows.OrderedRows(made, keys, (TS,), self.rows)
            conditions = [*conditions, *(each for each in [windows.shortest(window, rows)] if each)]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        names = [*keys, *([START, END] if window is not None else []), *(f"{each.sql} AS {each.column}" for each in outputs)]
        return self.work.step("windows", f"SELECT {', '.join(names)} FROM {made}{where}")

    def with_subtables(self, groups: Groups, made: str, members: str, found: Sequence[str]) -> str:
        """With the groups of subtables that have no rows, where rows are counted by tags and `tbname` alone."""
        if not groups.counts_subtables:
            return made
        tests = [self.rows.condition(part) for part in conjuncts(self.query.where) if self.frame.is_of_subtable(part)]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        columns = ", ".join(key.column for key in groups.keys)
        shown = ", ".join(f"{key.value.sql} AS {key.column}" for key in groups.keys)
        lacking = f"SELECT {shown} FROM {self.frame.subtables}{where} EXCEPT SELECT {columns} FROM {made}"
        nothing = f"SELECT {', '.join(found)} FROM {members} WHERE false"
        return self.work.step("groups", f"SELECT * FROM {made} UNION ALL SELECT * FROM ({lacking}), ({nothing})")

    def fill(self, groups: Groups, compiler: Compiler, finished: str, outputs: Sequence[Filled]) -> str:
        fill, window = self.query.fill, self.query.window
        if fill is None or fill.mode is FillMode.NONE:
            return finished
        if not isinstance(window, IntervalClause):
            raise ProgrammingError("FILL goes only with INTERVAL")
        grid = windows.Grid.of(window, self.rows)
        keys = [key.column for key in groups.keys]
        if fill.mode not in (FillMode.PREV, FillMode.NEXT, FillMode.NULL, FillMode.NULL_F) and any(
            grouping.likeness(item.expression) is Likeness.WITHIN for item in self.query.items
        ):
            raise unknown(f"FILL({fill.mode}) of an estimate")
        span = time_range(self.query.where, self.frame, self.rows)
        return filled(fill, grid, span, finished, keys, with_constants(fill, compiler, outputs), self.work.step)

    def plain(self, items: Sequence[SelectItem], keys: list[Key]) -> Answer:
        """A query without window and aggregates."""
        nodes = [item.expression for item in items] + [each.expression for each in self.query.order_by]
        calls = {call for node in nodes for call in grouping.series_calls(node)}
        compiler, relation, order = self.rows, "", None
        if calls:
            compiler, relation, order = self.with_series(calls, keys)
        else:
            relation = self.kept(keys)

        def made(node: Expression, column: str) -> Filled:
            return Filled.of(column, compiler.shown(node))

        outputs = [made(item.expression, f"o{number}") for number, item in enumerate(items)]
        hidden = self.hidden(items, made)
        by_time = self.frame.order if self.frame.time is not None else ()
        natural = [*(key.column for key in keys), *([order] if order else []), *by_time]
        extra = [f"{sql} AS n{number}" for number, sql in enumerate(natural)]
        selected = ", ".join([*(f"{each.sql} AS {each.column}" for each in [*outputs, *hidden]), *extra])
        found = self.work.step("selected", f"SELECT {selected} FROM {relation}")
        return self.arranged(found, items, outputs, hidden, [f"n{number}" for number in range(len(natural))], len(keys))

    def with_series(self, calls: set[Call], keys: list[Key]) -> tuple[Compiler, str, str | None]:
        """The rows beside the values of a function of neighbours, a compiler that knows it, and how the rows come."""
        if len(calls) > 1 or self.frame.time is None:
            raise unknown("more than one function of neighbours in a query, or one without a timestamp")
        call = next(iter(calls))
        if call.function not in series.SERIES:
            raise unknown(f"the function {call.function}")
        x = self.rows.value(call.arguments[0])
        columns = tuple(key.column for key in keys)
        use = series.SeriesUse(
            call.function, x, grouping.constants(self.rows, call), columns, self.frame.order, self.rows.precision
        )
        found = series.SERIES[call.function](use)
        relation = self.kept(keys)
        if found.only:
            relation = self.work.step("only", f"SELECT * FROM {relation} WHERE {found.only}")
        if found.place:
            relation = self.work.step("places", f"SELECT *, {found.place} AS {series.PLACE} FROM {relation}")
        relation = self.work.step("series", f"SELECT *, {found.value} AS {series.VALUE} FROM {relation}")
        if found.keep:
            relation = self.work.step("kept", f"SELECT * FROM {relation} WHERE {found.keep}")

        def leaf(node: Expression) -> Value | None:
            return Value(series.VALUE, found.type) if node == call else self.rows.leaf(node)

        return replace(self.rows, leaf=leaf), relation, found.order

    def hidden(self, items: Sequence[SelectItem], make: Callable[[Expression, str], Filled]) -> list[Filled]:
        """Columns for what ORDER BY names and the select list does not have."""
        missing = [each.expression for each in self.query.order_by if grouping.sorted_place(each.expression, items) is None]
        return [make(node, f"h{number}") for number, node in enumerate(missing)]

    def always_a_row(self, items: Sequence[SelectItem]) -> bool:
        return any(call.function in ALWAYS_A_ROW for item in items for call in grouping.aggregate_calls(item.expression))

    def arranged(
        self,
        found: str,
        items: Sequence[SelectItem],
        outputs: Sequence[Filled],
        hidden: Sequence[Filled],
        natural: Sequence[str],
        keys: int | None = None,
    ) -> Answer:
        """DISTINCT, SLIMIT, ORDER BY and LIMIT. Without ORDER BY rows come by group and time (`natural`)."""
        query, work = self.query, self.work
        count = len(natural) - (1 if query.window is not None else 0) if keys is None else keys
        made = tuple(
            Output(each.column, item.name, each.type, grouping.likeness(item.expression))
            for each, item in zip(outputs, items, strict=True)
        )
        sorts, by = self.order(items, hidden)
        if query.distinct:
            found, natural = self.distinct(found, made)
        if query.series_limit is not None and count:
            first = query.series_offset or 0
            ranked = f"SELECT *, dense_rank() OVER (ORDER BY {', '.join(ascending(natural[:count]))}) AS _series FROM {found}"
            inside = f"_series > {first} AND _series <= {first + query.series_limit}"
            found = work.step("some", f"SELECT * EXCLUDE (_series) FROM ({ranked}) WHERE {inside}")
        order = [*by, *ascending(natural)]
        if query.partition_by and query.limit is not None and not query.order_by and not query.distinct:
            relation = self.of_each(found, natural, count)
        else:
            relation = numbered(work, found, order, query.limit, query.offset, "*")
        return Answer(
            relation, made, self.frame.precision, self.frame.timezone, tuple(place for place in sorts if place is not None)
        )

    def order(self, items: Sequence[SelectItem], hidden: Sequence[Filled]) -> tuple[list[int | None], list[str]]:
        sorts = [grouping.sorted_place(ordering.expression, items) for ordering in self.query.order_by]
        waiting = iter(hidden)
        columns = [next(waiting).column if place is None else f"o{place}" for place in sorts]
        return sorts, [direction(column, each) for column, each in zip(columns, self.query.order_by, strict=True)]

    def distinct(self, found: str, outputs: Sequence[Output]) -> tuple[str, list[str]]:
        columns = [output.column for output in outputs]
        return self.work.step("distinct", f"SELECT DISTINCT {', '.join(columns)} FROM {found}"), columns

    def of_each(self, found: str, natural: Sequence[str], count: int) -> str:
        """LIMIT of a partitioned query: so many rows of each partition."""
        first, by = self.query.offset or 0, ", ".join(ascending(natural))
        keys = ", ".join(natural[:count])
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {by}) AS _place FROM {found}"
        inside = f"_place > {first} AND _place <= {first + (self.query.limit or 0)}"
        cut = self.work.step("each", f"SELECT * EXCLUDE (_place) FROM ({ranked}) WHERE {inside}")
        return numbered(self.work, cut, ascending(natural), None, None, "*")


def ascending(columns: Sequence[str]) -> list[str]:
    return [f"{column} ASC NULLS FIRST" for column in columns]


def with_constants(fill: FillClause, compiler: Compiler, outputs: Sequence[Filled]) -> list[Filled]:
    """The outputs with the constants of FILL(VALUE, …): one for each that depends on rows."""
    if fill.mode not in (FillMode.VALUE, FillMode.VALUE_F):
        return list(outputs)
    given = iter(fill.values)
    found: list[Filled] = []
    for each in outputs:
        node = next(given) if each.fills and each.column.startswith("o") else None
        constant = "NULL" if node is None else compiler.cast(compiler.value(node), each.type).sql
        found.append(replace(each, constant=constant))
    return found
