"""The TDengine parser: which keywords begin which statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from headrace.model.queries import Query, Union
from headrace.model.statements import (
    CreateSnode,
    Delete,
    Describe,
    DropQuarantine,
    DropSnode,
    DropStream,
    Explain,
    KillConnection,
    KillQuery,
    PauseStream,
    ReplayStream,
    ResetStream,
    Select,
    Show,
    Statement,
)
from headrace.model.tables import Name
from headrace.sql.tdengine.access import TDengineAccess
from headrace.sql.tdengine.functions import TDengineFunctions
from headrace.sql.tdengine.streams import TDengineStreams

IN_DATABASE: Final = ("STABLES", "TABLES", "VTABLES")
FROM_DATABASE: Final = (*IN_DATABASE, "JOBS", "STREAMS", "QUARANTINE")
LISTS: Final = ("DATABASES", *FROM_DATABASE, "FUNCTIONS", "SNODES", "QUERIES", "USERS", "CONNECTIONS")
MAX_DNODE: Final = 2**31 - 1


class Parser(TDengineAccess, TDengineStreams, TDengineFunctions):
    """Parses one statement of any kind except INSERT, for which `InsertScanner` exists."""

    STATEMENTS: ClassVar[Mapping[str, Callable[[Any], Statement]]] = {
        "ALTER": lambda self: self._parse_alter(),
        "COMPACT": lambda self: self._parse_maintain_database(compact=True),
        "CREATE": lambda self: self._parse_create(),
        "DELETE": lambda self: self._parse_delete(),
        "DESC": lambda self: Describe(self._parse_name("a table")),
        "DESCRIBE": lambda self: Describe(self._parse_name("a table")),
        "DROP": lambda self: self._parse_drop(),
        "EXPLAIN": lambda self: self._parse_explain(),
        "FLUSH": lambda self: self._parse_maintain_database(compact=False),
        "GRANT": lambda self: self._parse_grant(),
        "KILL": lambda self: self._parse_kill(),
        "PAUSE": lambda self: self._past("STREAM")._parse_control(PauseStream),
        "REPLAY": lambda self: self._past("QUARANTINE", "OF", "STREAM")._parse_control(ReplayStream),
        "RESET": lambda self: self._past("STREAM")._parse_control(ResetStream),
        "RESUME": lambda self: self._past("STREAM")._parse_resume_stream(),
        "REVOKE": lambda self: self._parse_revoke(),
        "SELECT": lambda self: Select(self._parse_query()),
        "SHOW": lambda self: self._parse_show(),
        "USE": lambda self: self._parse_use(),
    }

    CREATES: ClassVar[Mapping[str, Callable[[Any, int], Statement]]] = {
        "DATABASE": lambda self, _: self._parse_create_database(),
        "STABLE": lambda self, _: self._parse_create_stable(),
        "TABLE": lambda self, _: self._parse_create_table(),
        "VTABLE": lambda self, _: self._parse_create_vtable(),
        "EXTERNAL": lambda self, _: self._parse_create_external(),
        "STREAM": lambda self, start: self._parse_create_stream(start),
        "SNODE": lambda self, start: CreateSnode(self._parse_dnode(), self._span(start)),
        "FUNCTION": lambda self, start: self._parse_create_function(start),
        "AGGREGATE": lambda self, start: self._past("FUNCTION")._parse_create_function(start, is_aggregate=True),
        "USER": lambda self, _: self._parse_create_user(),
    }

    REPLACES: ClassVar[Mapping[str, Callable[[Any, int], Statement]]] = {
        "STREAM": lambda self, start: self._parse_create_stream(start, or_replace=True),
        "FUNCTION": lambda self, start: self._parse_create_function(start, or_replace=True),
        "AGGREGATE": lambda self, start: self._past("FUNCTION")._parse_create_function(start, is_aggregate=True, or_replace=True),
    }

    DROPS: ClassVar[Mapping[str, Callable[[Any], Statement]]] = {
        "DATABASE": lambda self: self._parse_drop_database(),
        "STABLE": lambda self: self._parse_drop_table(supertable=True),
        "TABLE": lambda self: self._parse_drop_table(),
        "VTABLE": lambda self: self._parse_drop_vtable(),
        "STREAM": lambda self: self._parse_control(DropStream),
        "QUARANTINE": lambda self: self._past("OF", "STREAM")._parse_control(DropQuarantine),
        "SNODE": lambda self: self._parse_drop_snode(),
        "FUNCTION": lambda self: self._parse_drop_function(),
        "USER": lambda self: self._parse_drop_user(),
    }

    UNSUPPORTED: ClassVar[Mapping[str, str]] = {
        "INDEX": "leave it out: tags are in memory, and queries skip files by their statistics",
        "TOPIC": "read the change feed of the Delta table",
        "TSMA": "create a stream",
        "VIEW": "write the query in parentheses after FROM",
    }

    def query_from(self, offset: int) -> Query | Union:
        self._index = next(index for index, token in enumerate(self._tokens) if token.start >= offset)
        self._token = self._tokens[self._index]
        query = self._parse_query()
        self._expect_end()
        return query

    def _parse_statement(self) -> Statement:
        if self._token.word == "(":
            return Select(self._parse_query())
        if self._token.word == "TRIM":
            self._fail_unsupported("TRIM", "DELETE FROM each table WHERE its timestamp is older; streams see deleted rows")
        return super()._parse_statement()

    def _parse_create(self) -> Statement:
        start = self._index - 1
        if self._accept("OR", "REPLACE"):
            return self.REPLACES[self._expect_one(*self.REPLACES)](self, start)
        self._refuse_kind("CREATE")
        return self.CREATES[self._expect_one(*self.CREATES)](self, start)

    def _refuse_kind(self, verb: str) -> None:
        """Refuse to create or drop what Headrace does not have."""
        if self._token.word in self.UNSUPPORTED:
            self._fail_unsupported(f"{verb} {self._token.word}", self.UNSUPPORTED[self._token.word])

    def _parse_drop(self) -> Statement:
        self._refuse_kind("DROP")
        return self.DROPS[self._expect_one(*self.DROPS)](self)

    def _parse_dnode(self) -> int:
        self._expect("ON", "DNODE")
        token = self._token
        number = self._parse_integer("the number of a dnode")
        if not 1 <= number <= MAX_DNODE:
            self._fail_invalid(f"dnodes are numbered from 1 to {MAX_DNODE}", token)
        return number

    def _parse_drop_snode(self) -> DropSnode:
        start = self._index - 2
        return DropSnode(self._parse_dnode(), self._span(start))

    def _parse_kill(self) -> KillQuery | KillConnection:
        start = self._index - 1
        if self._expect_one("QUERY", "CONNECTION") == "CONNECTION":
            return KillConnection(self._parse_integer("the number of a connection"), self._span(start))
        return KillQuery(self._parse_string(), self._span(start))

    def _parse_alter(self) -> Statement:
        if self._accept("DATABASE"):
            return self._parse_alter_database()
        if self._accept("STREAM"):
            return self._parse_alter_stream()
        if self._accept("VTABLE"):
            return self._parse_alter_vtable()
        if self._accept("USER"):
            return self._parse_alter_user()
        return self._parse_alter_table(supertable=self._expect_one("TABLE", "STABLE") == "STABLE")

    def _parse_delete(self) -> Delete:
        self._expect("FROM")
        table = self._parse_name("a table")
        return Delete(table, self._parse_expression() if self._accept("WHERE") else None)

    def _parse_explain(self) -> Explain:
        analyze = self._accept("ANALYZE")
        start = self._index
        is_verbose = self._accept("VERBOSE") and self._expect_one("TRUE", "FALSE") == "TRUE"
        if is_verbose and not analyze:
            self._fail_unsupported("EXPLAIN VERBOSE", "write EXPLAIN ANALYZE VERBOSE true", self._span(start))
        return Explain(self._parse_explained(), analyze, is_verbose)

    # SHOW

    def _parse_show(self) -> Show:
        start = self._index - 1
        if self._accept("CREATE"):
            what = self._expect_one("DATABASE", "TABLE", "STABLE", "VTABLE", "STREAM")
            if what == "DATABASE":
                return Show("create database", self._parse_database_name(), span=self._span(start))
            return Show(f"create {what.lower()}", self._parse_name(f"a {what.lower()}"), span=self._span(start))
        if self._accept("TAGS"):
            return self._parse_show_tags(start)
        if self._accept("FILES"):
            self._expect_one("OF", "FROM")
            return Show("files", self._parse_name("a table"), span=self._span(start))
        if self._accept("USER", "PRIVILEGES"):
            return Show("user privileges", span=self._span(start))
        kind = self._parse_vtable_kind()
        database = self._parse_show_prefix()
        what = self._expect_one(*(("VTABLES",) if kind else IN_DATABASE if database else LISTS))
        if database is None and what in FROM_DATABASE and self._accept_one("FROM", "IN"):
            database = self._parse_identifier("a database")
        like = self._parse_string() if self._accept("LIKE") else None
        return Show(f"{kind}{what}".lower(), database=database, like=like, span=self._span(start))

    def _parse_vtable_kind(self) -> str:
        """Parse the kind in `SHOW [NORMAL | CHILD] VTABLES`, with a space after it."""
        return f"{self._accept_one('NORMAL', 'CHILD')} " if self._token.word in ("NORMAL", "CHILD") else ""

    def _parse_show_prefix(self) -> str | None:
        if self._peek().word != ".":
            return None
        database = self._parse_identifier("a database")
        self._expect(".")
        return database

    def _parse_show_tags(self, start: int) -> Show:
        self._expect("FROM")
        name = self._parse_name("a table")
        if name.database is None and self._accept_one("FROM", "IN"):
            name = Name(self._parse_identifier("a database"), name.name, name.span)
        return Show("tags", name, span=self._span(start))
