"""The statement parser of the IoTDB language: which keywords begin which statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.statements import Explain, Statement
from headrace.model.tree_statements import PauseContinuousQuery, ResumeContinuousQuery, TreeDelete, TreeSelect, TreeStatement
from headrace.sql.iotdb.expressions import is_constant
from headrace.sql.iotdb.insert_header import InsertHeaderParser
from headrace.sql.tokens import TokenType

LATER: Final = {
    **dict.fromkeys(("GRANT", "REVOKE", "LIST"), "privileges come with a later version: every user may do everything"),
    **dict.fromkeys(("START", "STOP"), "pipes and triggers come with a later version"),
    **dict.fromkeys(("FLUSH", "CLEAR", "SETTLE"), "leave it out: writes are durable, and maintenance compacts files"),
    "LOAD": "load exported CSV files with `headrace load`",
    **dict.fromkeys(("KILL", "MIGRATE", "RECONSTRUCT", "EXTEND", "REMOVE", "VERIFY", "CALL", "UNLOAD"), "there is no counterpart"),
}
LATER_OBJECTS: Final = {
    **dict.fromkeys(("PIPE", "PIPEPLUGIN"), "pipes come with a later version"),
    **dict.fromkeys(("TRIGGER", "STATELESS", "STATEFUL"), "triggers come with a later version"),
    **dict.fromkeys(("USER", "ROLE"), "users and roles come with a later version: every user may do everything"),
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


class Parser(InsertHeaderParser):
    """Parses one statement of any kind except INSERT, whose rows have a scanner of their own."""

    STATEMENTS: ClassVar[Mapping[str, Callable[[Any], Statement]]] = {
        "ALTER": lambda self: self._parse_alter(),
        "COUNT": lambda self: self._parse_count_statement(),
        "CREATE": lambda self: self._parse_create(),
        "DEACTIVATE": lambda self: self._parse_deactivate(),
        "DELETE": lambda self: self._parse_delete(),
        "DROP": lambda self: self._parse_drop(),
        "EXPLAIN": lambda self: self._parse_explain(),
        "PAUSE": lambda self: PauseContinuousQuery(self._parse_query_name()),
        "RESUME": lambda self: ResumeContinuousQuery(self._parse_query_name()),
        "SELECT": lambda self: TreeSelect(self._parse_tree_query()),
        "SET": lambda self: self._parse_set(),
        "SHOW": lambda self: self._parse_show(),
        "UNSET": lambda self: self._parse_unset(),
    }

    CREATES: ClassVar[Mapping[str, Callable[[Any, int], TreeStatement]]] = {
        "ALIGNED": lambda self, _: self._parse_create_aligned(),
        "CONTINUOUS": lambda self, start: self._parse_create_continuous(start),
        "CQ": lambda self, start: self._parse_create_query(start),
        "DATABASE": lambda self, _: self._parse_create_database(),
        "DEVICE": lambda self, _: self._parse_create_template(),
        "FUNCTION": lambda self, _: self._parse_create_function(),
        "SCHEMA": lambda self, _: self._parse_create_template(),
        "STORAGE": lambda self, _: self._parse_create_storage_group(),
        "TIMESERIES": lambda self, _: self._parse_create_timeseries(),
    }

    DROPS: ClassVar[Mapping[str, Callable[[Any], TreeStatement]]] = {
        "CONTINUOUS": lambda self: self._parse_drop_continuous(),
        "CQ": lambda self: self._parse_drop_query(),
        "DATABASE": lambda self: self._parse_drop_databases(),
        "DEVICE": lambda self: self._parse_drop_template(),
        "FUNCTION": lambda self: self._parse_drop_function(),
        "SCHEMA": lambda self: self._parse_drop_template(),
        "STORAGE": lambda self: self._parse_drop_storage_groups(),
        "TIMESERIES": lambda self: self._parse_drop_timeseries(),
    }

    def statement(self) -> Statement:
        """Parse the only statement of the text."""
        statement = self._parse_statement()
        self._expect_end()
        return statement

    def _parse_statement(self) -> Statement:
        word = self._token.word
        if word in LATER:
            self._fail_unsupported(word, LATER[word])
        if word not in self.STATEMENTS:
            self._fail(*self.STATEMENTS, "INSERT")
        if word != "SELECT":
            self._advance()
        return self.STATEMENTS[word](self)

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

    def _parse_create(self) -> TreeStatement:
        start = self._index - 1
        return self.CREATES[self._parse_object_kind(*self.CREATES)](self, start)

    def _parse_create_continuous(self, start: int) -> TreeStatement:
        self._expect("QUERY")
        return self._parse_create_query(start)

    def _parse_create_storage_group(self) -> TreeStatement:
        self._expect("GROUP")
        return self._parse_create_database()

    def _parse_drop(self) -> TreeStatement:
        return self.DROPS[self._parse_object_kind(*self.DROPS)](self)

    def _parse_drop_continuous(self) -> TreeStatement:
        self._expect("QUERY")
        return self._parse_drop_query()

    def _parse_drop_storage_groups(self) -> TreeStatement:
        self._expect("GROUP")
        return self._parse_drop_databases()

    def _parse_alter(self) -> TreeStatement:
        match self._parse_object_kind("TIMESERIES", "DATABASE", "STORAGE", "DEVICE", "SCHEMA"):
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
        if self._token.word == "EXPLAIN":
            self._fail(*(word for word in self.STATEMENTS if word != "EXPLAIN"))
        return Explain(self._parse_statement(), analyze, verbose)

    # DELETE

    def _parse_delete(self) -> TreeStatement:
        """Parse a DELETE of rows, series or databases."""
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
