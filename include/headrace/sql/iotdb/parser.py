"""The statement parser of the IoTDB language: which keywords begin which statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from headrace.model.access_statements import CreateRole, DropRole, DropUser
from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.paths import PathPattern
from headrace.model.statements import Explain, Statement
from headrace.model.tree_statements import (
    DropContinuousQuery,
    DropFunction,
    DropTemplate,
    DropTreeDatabases,
    DropTrigger,
    KillQueries,
    NamedStatement,
    PauseContinuousQuery,
    ResumeContinuousQuery,
    StartPipe,
    StartTrigger,
    StopPipe,
    StopTrigger,
    TreeDelete,
    TreeSelect,
    TreeStatement,
)
from headrace.sql.iotdb.access import ROLE, USER, AccessParser
from headrace.sql.iotdb.expressions import is_constant
from headrace.sql.iotdb.pipes import WHAT
from headrace.sql.tokens import TokenType


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """`INSERT INTO device(columns) [ALIGNED]`; `time_at` is the index of the time column, None if there is none."""

    device: PathPattern
    measurements: tuple[str, ...]
    time_at: int | None
    aligned: bool


LATER: Final = {
    **dict.fromkeys(("FLUSH", "CLEAR", "SETTLE"), "leave it out: writes are durable, and maintenance compacts files"),
    "LOAD": "load exported CSV files with `headrace load`",
    **dict.fromkeys(("MIGRATE", "RECONSTRUCT", "EXTEND", "REMOVE", "VERIFY", "CALL", "UNLOAD"), "there is no counterpart"),
}
LATER_OBJECTS: Final = {
    "VIEW": "views come with a later version",
    **dict.fromkeys(("TOPIC", "MODEL", "PARTITION"), "it has no counterpart here"),
}
DELETE_RANGE: Final = (
    "For delete statement, where clause can only contain atomic expressions like : time > XXX, time <= XXX, or two atomic"
    " expressions connected by 'AND'"
)
DELETE_TIME_ONLY: Final = (
    "For delete statement, where clause can only contain time expressions, value filter is not currently supported."
)
COMPARISONS: Final = ("=", "<", "<=", ">", ">=")


class Parser(AccessParser):
    """Parses one statement of any kind except INSERT, whose rows have a scanner of their own."""

    STATEMENTS: ClassVar[Mapping[str, Callable[[Any], Statement]]] = {
        "ALTER": lambda self: self._parse_alter(),
        "COUNT": lambda self: self._parse_count_statement(),
        "CREATE": lambda self: self._parse_create(),
        "DEACTIVATE": lambda self: self._parse_deactivate(),
        "DELETE": lambda self: self._parse_delete(),
        "DROP": lambda self: self._parse_drop(),
        "EXPLAIN": lambda self: self._parse_explain(),
        "GRANT": lambda self: self._parse_grant(),
        "KILL": lambda self: self._parse_kill(),
        "LIST": lambda self: self._parse_list_statement(),
        "PAUSE": lambda self: PauseContinuousQuery(self._parse_query_name()),
        "RESUME": lambda self: ResumeContinuousQuery(self._parse_query_name()),
        "REVOKE": lambda self: self._parse_revoke(),
        "SELECT": lambda self: TreeSelect(self._parse_tree_query()),
        "SET": lambda self: self._parse_set(),
        "SHOW": lambda self: self._parse_show(),
        "START": lambda self: self._parse_start_or_stop(StartPipe, StartTrigger),
        "STOP": lambda self: self._parse_start_or_stop(StopPipe, StopTrigger),
        "UNSET": lambda self: self._parse_unset(),
    }

    CREATES: ClassVar[Mapping[str, Callable[[Any, int], TreeStatement]]] = {
        "ALIGNED": lambda self, _: self._parse_create_aligned(),
        "CONTINUOUS": lambda self, start: self._past("QUERY")._parse_create_query(start),
        "CQ": lambda self, start: self._parse_create_query(start),
        "DATABASE": lambda self, _: self._parse_create_database(),
        "DEVICE": lambda self, _: self._parse_create_template(),
        "EXTERNAL": lambda self, _: self._past("DATABASE")._parse_create_external(),
        "FUNCTION": lambda self, _: self._parse_create_function(),
        "PIPE": lambda self, _: self._parse_create_pipe(),
        "PIPEPLUGIN": lambda self, start: self._parse_create_pipe_plugin(start),
        "ROLE": lambda self, _: CreateRole(self._parse_identifier(ROLE)),
        "SCHEMA": lambda self, _: self._parse_create_template(),
        "STATEFUL": lambda self, start: self._past("TRIGGER")._parse_create_trigger(start),
        "STATELESS": lambda self, start: self._past("TRIGGER")._parse_create_trigger(start),
        "STORAGE": lambda self, _: self._past("GROUP")._parse_create_database(),
        "TIMESERIES": lambda self, _: self._parse_create_timeseries(),
        "TRIGGER": lambda self, start: self._parse_create_trigger(start),
        "USER": lambda self, _: self._parse_create_user(),
    }

    DROPS: ClassVar[Mapping[str, Callable[[Any], TreeStatement]]] = {
        "CONTINUOUS": lambda self: DropContinuousQuery(self._past("QUERY")._parse_identifier("a continuous query")),
        "CQ": lambda self: DropContinuousQuery(self._parse_identifier("a continuous query")),
        "DATABASE": lambda self: DropTreeDatabases(self._parse_patterns()),
        "DEVICE": lambda self: DropTemplate(self._past("TEMPLATE")._parse_template_name()),
        "FUNCTION": lambda self: DropFunction(self._parse_identifier("a function")),
        "PIPE": lambda self: self._parse_drop_pipe(),
        "PIPEPLUGIN": lambda self: self._parse_drop_pipe_plugin(),
        "ROLE": lambda self: DropRole(self._parse_identifier(ROLE)),
        "SCHEMA": lambda self: DropTemplate(self._past("TEMPLATE")._parse_template_name()),
        "STORAGE": lambda self: DropTreeDatabases(self._past("GROUP")._parse_patterns()),
        "TIMESERIES": lambda self: self._parse_drop_timeseries(),
        "TRIGGER": lambda self: DropTrigger(self._parse_identifier("a trigger")),
        "USER": lambda self: DropUser(self._parse_identifier(USER)),
    }

    def _parse_statement(self) -> Statement:
        if self._token.word in LATER:
            self._fail_unsupported(self._token.word, LATER[self._token.word])
        return super()._parse_statement()

    def _expect_end(self) -> None:
        self._accept(";")
        if self._token.kind is not TokenType.END:
            self._expected.insert(0, "<EOF>")
            self._fail()

    def _parse_object_kind(self, *words: str) -> str:
        """Parse the keyword for the kind of object to create, drop or alter."""
        word = self._token.word
        if word in LATER_OBJECTS:
            before = self._tokens[self._index - 1].word
            self._fail_unsupported(f"{before} {word}", LATER_OBJECTS[word])
        return self._expect_one(*words)

    def _parse_kill(self) -> TreeStatement:
        """Parse `QUERY 'id'` or `ALL QUERIES`."""
        if self._expect_one("QUERY", "ALL") == "ALL":
            self._expect("QUERIES")
            return KillQueries()
        return KillQueries(self._parse_string())

    def _parse_create(self) -> TreeStatement:
        start = self._index - 1
        return self.CREATES[self._parse_object_kind(*self.CREATES)](self, start)

    def _parse_drop(self) -> TreeStatement:
        return self.DROPS[self._parse_object_kind(*self.DROPS)](self)

    def _parse_alter(self) -> TreeStatement:
        match self._parse_object_kind("TIMESERIES", "DATABASE", "STORAGE", "DEVICE", "SCHEMA", "PIPE", "USER"):
            case "USER":
                return self._parse_alter_user()
            case "PIPE":
                return self._parse_alter_pipe()
            case "TIMESERIES":
                return self._parse_alter_timeseries()
            case "DEVICE" | "SCHEMA":
                return self._parse_alter_template()
            case "STORAGE":
                self._expect("GROUP")
        return self._parse_alter_database()

    def _parse_explain(self) -> Explain:
        """Parse `EXPLAIN [ANALYZE [VERBOSE]] statement`."""
        analyze = self._accept("ANALYZE")
        verbose = analyze and self._accept("VERBOSE")
        return Explain(self._parse_explained(), analyze, verbose)

    def _parse_start_or_stop(self, of_pipe: type[NamedStatement], of_trigger: type[NamedStatement]) -> NamedStatement:
        """Parse `PIPE name` or `TRIGGER name` of START and STOP."""
        if self._parse_object_kind("PIPE", "TRIGGER") == "PIPE":
            return of_pipe(self._parse_identifier(WHAT))
        return of_trigger(self._parse_identifier("a trigger"))

    # DELETE

    def _parse_delete(self) -> TreeStatement:
        if not self._accept("FROM"):
            return self.DROPS[self._parse_object_kind("TIMESERIES", "DATABASE", "STORAGE")](self)
        patterns = self._parse_patterns()
        where = None
        if self._accept("WHERE"):
            start = self._index
            where = self._parse_expression()
            self._check_range(where, start)
        return TreeDelete(patterns, where)

    def _check_range(self, where: Expression, start: int) -> None:
        """Raise `SqlSyntaxError` for a condition that is not a time range."""
        match where:
            case Call(function="and", arguments=(left, right)):
                self._check_range(left, start)
                self._check_range(right, start)
            case Call(function=function, arguments=(left, right)) if function in COMPARISONS:
                sides = (left, right) if isinstance(left, ColumnRef) else (right, left)
                if sides[0] != ColumnRef("time") or not is_constant(sides[1]):
                    self._semantic(DELETE_TIME_ONLY, where.span, hint="compare time with a constant")
            case _:
                self._semantic(DELETE_RANGE, self._span(start), hint="write time >= … AND time < …")

    # INSERT

    def insert_header(self) -> InsertHeader:
        """Parse up to VALUES, the last token."""
        self._accept("EXPLAIN")
        self._expect("INSERT", "INTO")
        device = self._parse_path()
        columns = self._parse_items(self._parse_insert_column)
        times = [at for at, column in enumerate(columns) if column is None]
        measurements = tuple(column for column in columns if column is not None)
        if len(times) > 1:
            self._semantic("One row should only have one time value", device.span, hint="name the time column once")
        if not measurements:
            text = "InsertStatement should contain at least one measurement"
            self._semantic(text, device.span, hint="name what was measured after the time: (time, temperature)")
        aligned = self._accept("ALIGNED")
        self._expect("VALUES")
        return InsertHeader(device, measurements, times[0] if times else None, aligned)

    def expect_rows(self) -> None:
        """Raise `SqlSyntaxError` if no rows follow the header."""
        if self._token.word != "(":
            self._fail("(")

    def _parse_insert_column(self) -> str | None:
        """Parse a column: a measurement, or None for the time."""
        if self._token.word in ("TIME", "TIMESTAMP"):
            self._advance()
            return None
        return self._parse_plain_node()
