"""Parsing of CREATE, DROP and ALTER of databases, tables and tags."""

from __future__ import annotations

import itertools
from typing import Final, NoReturn

from headrace.errors import LimitError
from headrace.model.statements import (
    AddColumn,
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateSubtables,
    CreateSubtablesFromFile,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    MaintainDatabase,
    ModifyColumn,
    RenameColumn,
    SetTableOptions,
    SetTags,
    SubtableSpec,
    TagValue,
    UseDatabase,
)
from headrace.model.tables import Column, Name
from headrace.model.time import Duration, Precision
from headrace.model.types import NUMBERS, DataType, TypeKind
from headrace.sql.numbers import negative
from headrace.sql.tdengine.queries import TDengineQueries
from headrace.sql.tokens import Token
from headrace.sql.tokens import TokenType as TokenKind

STRING, NUMBER, DURATION = "a string", "a whole number", "a duration"
NUMBER_OPTIONS: Final = (
    *("BUFFER", "CACHESIZE", "COMP", "MAXROWS", "MINROWS", "PAGES", "PAGESIZE", "REPLICA", "SINGLE_STABLE", "STT_TRIGGER"),
    *("TABLE_PREFIX", "TABLE_SUFFIX", "TSDB_PAGESIZE", "VGROUPS", "WAL_FSYNC_PERIOD", "WAL_LEVEL", "WAL_RETENTION_PERIOD"),
    "WAL_RETENTION_SIZE",
)
STRING_OPTIONS: Final = ("CACHEMODEL", "DNODES", "ENCRYPT_ALGORITHM", "PRECISION", "STRICT", "TIMEZONE")
DURATION_OPTIONS: Final = ("DURATION", "KEEP", "KEEP_TIME_OFFSET")
DATABASE_OPTIONS: Final = {
    name: NUMBER if name in NUMBER_OPTIONS else STRING if name in STRING_OPTIONS else DURATION
    for name in sorted((*NUMBER_OPTIONS, *STRING_OPTIONS, *DURATION_OPTIONS))
}
"""Database options and the kind of their values. TIMEZONE, the zone of calendar windows, is a Headrace extension."""

ALTERABLE_OPTIONS: Final = (
    *("BUFFER", "CACHEMODEL", "CACHESIZE", "KEEP", "KEEP_TIME_OFFSET", "MINROWS", "PAGES", "REPLICA", "STT_TRIGGER"),
    *("WAL_FSYNC_PERIOD", "WAL_LEVEL", "WAL_RETENTION_PERIOD", "WAL_RETENTION_SIZE"),
)
"""The options that TDengine changes after the creation of a database."""

TABLE_OPTIONS: Final = ("ROLLUP", "WATERMARK", "MAX_DELAY", "DELETE_MARK", "KEEP", "VIRTUAL")
ALTER_OPTIONS: Final = ("COMMENT", "TTL")
ALTERATIONS: Final = ("ADD", "DROP", "MODIFY", "RENAME")
MAX_TTL_DAYS: Final = 2**31 - 1
COMPRESSION: Final = ("ENCODE", "COMPRESS", "LEVEL")
NEEDS_LENGTH: Final = (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.VARBINARY, TypeKind.GEOMETRY, TypeKind.DECIMAL)


class TDengineTables(TDengineQueries):
    """Parses statements about databases and tables. Each method begins after the keywords that identify the statement."""

    # Databases

    def _parse_create_database(self) -> CreateDatabase:
        if_not_exists = self._parse_not_exists()
        name = self._parse_database_name()
        options: dict[str, str] = {}
        precision = Precision.MILLISECOND
        while (option := self._accept_one(*(word for word in DATABASE_OPTIONS if word.lower() not in options))) is not None:
            if option == "PRECISION":
                precision = self._parse_precision()
            options[option.lower()] = precision if option == "PRECISION" else self._parse_option(DATABASE_OPTIONS[option])
        options.pop("precision", None)
        return CreateDatabase(name, if_not_exists, precision, tuple(options.items()))

    def _parse_alter_database(self) -> AlterDatabase:
        name = self._parse_database_name()
        options: dict[str, str] = {}
        while not options or (self._token.kind is not TokenKind.END and not self._is_at(";")):
            if self._token.word in DATABASE_OPTIONS and self._token.word not in ALTERABLE_OPTIONS:
                word = self._token.word
                self._fail_unsupported(
                    f"ALTER DATABASE … {word}", "it is set at creation: create another database, and copy the tables"
                )
            option = self._expect_one(*(word for word in ALTERABLE_OPTIONS if word.lower() not in options))
            options[option.lower()] = self._parse_option(DATABASE_OPTIONS[option])
        return AlterDatabase(name, tuple(options.items()))

    def _parse_maintain_database(self, compact: bool) -> MaintainDatabase:
        self._expect("DATABASE")
        name, first = self._parse_database_name(), self._index
        start = self._parse_instant() if compact and self._accept("START", "WITH") else None
        end = self._parse_instant() if compact and self._accept("END", "WITH") else None
        span = None if start is None and end is None else self._span(first)
        return MaintainDatabase(name, compact, start, end, span)

    def _parse_instant(self) -> str | int:
        return self._parse_string() if self._token.kind is TokenKind.STRING else self._parse_integer("an instant")

    def _parse_precision(self) -> Precision:
        token = self._token
        text = self._parse_string("'ms', 'us' or 'ns'").lower()
        if text not in tuple(Precision):
            self._fail_invalid(f"{text!r} is not a valid precision", token, hint="write 'ms', 'us' or 'ns'")
        return Precision(text)

    def _parse_option(self, what: str) -> str:
        """Parse the value of a database option. Retention times are plain numbers (days) or lists of durations."""
        if what == STRING:
            return self._parse_string(what)
        if what == NUMBER:
            sign = "-" if self._accept("-") else ""
            return f"{sign}{self._parse_integer(what)}"
        if self._token.kind is TokenKind.NUMBER:
            return str(self._parse_integer(what))
        return ",".join(str(duration) for duration in self._parse_list(self._parse_retention))

    def _parse_retention(self) -> Duration:
        start, duration = self._index, self._parse_duration()
        if duration.is_calendar:
            message = f"{duration} has no fixed length, since months and years differ"
            raise LimitError(message, hint="use weeks, days or shorter units", span=self._span(start), sql=self.text)
        return duration

    def _parse_drop_database(self) -> DropDatabase:
        if_exists = self._parse_exists()
        return DropDatabase(self._parse_database_name(), if_exists)

    def _parse_use(self) -> UseDatabase:
        self._accept("DATABASE")
        return UseDatabase(self._parse_database_name())

    def _parse_database_name(self) -> Name:
        start = self._index
        return Name(None, self._parse_identifier("a database"), self._span(start))

    # Tables

    def _parse_create_stable(self) -> CreateTable:
        if_not_exists = self._parse_not_exists()
        table = self._parse_columns(self._parse_name("a supertable"), if_not_exists)
        return table if table.tags else self._fail("TAGS")

    def _parse_create_table(self) -> CreateTable | CreateSubtables | CreateSubtablesFromFile:
        if_not_exists = self._parse_not_exists()
        if self._accept("USING"):
            return self._parse_subtable_file(if_not_exists)
        name = self._parse_name("a table")
        if not self._is_at("USING"):
            return self._parse_columns(name, if_not_exists)
        subtables = [self._parse_using(name, if_not_exists)]
        while self._token.kind is not TokenKind.END and not self._is_at(";"):
            if_not_exists = self._parse_not_exists()
            subtables.append(self._parse_using(self._parse_name("a table"), if_not_exists))
        return CreateSubtables(tuple(subtables))

    def _parse_subtable_file(self, if_not_exists: bool) -> CreateSubtablesFromFile:
        """Parse `supertable (tbname, tag, …) FILE 'path'`."""
        using = self._parse_name("a supertable")
        start = self._index
        columns = self._parse_items(lambda: self._parse_identifier("tbname or a tag"))
        column_span = self._span(start)
        self._expect("FILE")
        start = self._index
        path = self._parse_string("the path of a file in quotes")
        return CreateSubtablesFromFile(using, columns, path, if_not_exists, column_span, self._span(start))

    def _parse_columns(self, name: Name, if_not_exists: bool) -> CreateTable:
        positions = itertools.count()
        columns = self._parse_items(lambda: self._parse_column_definition(next(positions)))
        tags = self._parse_items(self._parse_tag) if self._accept("TAGS") else ()
        token = self._token
        comment, ttl_days = self._parse_table_options()
        if tags and ttl_days:
            self._fail_supertable_ttl(token)
        is_virtual = bool(tags) and self._accept("VIRTUAL") and self._parse_switch()
        if self._token.word in TABLE_OPTIONS:
            self._fail_unsupported(f"the table option {self._token.word}", "leave it out")
        return CreateTable(name, columns, tags, if_not_exists, comment, is_virtual, ttl_days or 0)

    def _fail_supertable_ttl(self, token: Token) -> NoReturn:
        self._fail_invalid("a supertable has no TTL", token, "give its subtables one")

    def _parse_column_definition(self, position: int) -> Column:
        start = self._index
        name = self._parse_identifier("a column")
        type_ = self._parse_column_type()
        self._skip_compression()
        is_key = self._parse_key(position)
        self._skip_compression()
        return Column(name, type_, is_key, self._parse_comment(), self._span(start))

    def _skip_compression(self) -> None:
        while self._accept_one(*COMPRESSION):
            self._parse_string()

    def _parse_tag(self) -> Column:
        start = self._index
        name = self._parse_identifier("a tag")
        type_ = self._parse_column_type()
        return Column(name, type_, comment=self._parse_comment(), span=self._span(start))

    def _parse_column_type(self) -> DataType:
        type_ = self._parse_type()
        if type_.kind in NEEDS_LENGTH and type_.length is None:
            example = "(10, 2)" if type_.kind in NUMBERS else "(20)"
            self._fail("(", hint=f"add a length, as in {type_.kind}{example}")
        return type_

    def _parse_key(self, position: int) -> bool:
        """Parse `[PRIMARY KEY | COMPOSITE KEY]`, which only the second column may have."""
        token = self._token
        if self._accept_one("PRIMARY", "COMPOSITE") is None:
            return False
        self._expect("KEY")
        if position != 1:
            message = f"{token.word} KEY may follow only the second column"
            self._fail_invalid(message, token, hint="the first column, the timestamp, is part of the key in any case")
        return True

    def _parse_comment(self) -> str | None:
        return self._parse_string() if self._accept("COMMENT") else None

    def _parse_table_options(self) -> tuple[str | None, int | None]:
        """Parse `COMMENT 'text'`, `SMA (column, …)` and `TTL days` in any order; return comment and days, None without them."""
        comment = ttl_days = None
        while True:
            if self._accept("SMA"):
                self._parse_items(lambda: self._parse_identifier("a column"))
            elif self._accept("TTL"):
                ttl_days = self._parse_ttl()
            elif (text := self._parse_comment()) is not None:
                comment = text
            else:
                return comment, ttl_days

    def _parse_ttl(self) -> int:
        token = self._token
        days = self._parse_integer("a number of days")
        return days if 0 <= days <= MAX_TTL_DAYS else self._fail_invalid(f"TTL is 0 to {MAX_TTL_DAYS} days", token)

    def _parse_switch(self) -> bool:
        token = self._token
        value = self._parse_integer("0 or 1")
        return bool(value) if value in (0, 1) else self._fail_invalid(f"{value} is not 0 or 1", token)

    # Subtables and tags

    def _parse_using(self, name: Name, if_not_exists: bool) -> SubtableSpec:
        self._expect("USING")
        using = self._parse_name("a supertable")
        names = self._parse_items(lambda: self._parse_identifier("a tag")) if self._is_at("(") else None
        self._expect("TAGS")
        values = self._parse_items(self._parse_tag_value)
        if names is not None and len(names) != len(values):
            self._fail_invalid(f"{len(names)} tags, but {len(values)} values", self._tokens[self._index - 1])
        _, ttl_days = self._parse_table_options()
        return SubtableSpec(name, using, values, names, if_not_exists, ttl_days or 0)

    def _parse_tag_value(self) -> TagValue:
        """Parse a constant: number, string, boolean or NULL."""
        start = self._index
        sign = self._accept_one("-", "+")
        token = self._token
        if token.kind is TokenKind.NUMBER:
            self._advance()
            number = self._number_value(token)
            return TagValue(negative(number) if sign == "-" else number, self._span(start))
        if sign is None and token.word in self.CONSTANTS:
            self._advance()
            return TagValue(self.CONSTANTS[token.word], self._span(start))
        if sign is None and token.kind is TokenKind.STRING:
            return TagValue(self._parse_string(), self._span(start))
        return self._fail("a number" if sign else "a constant (number, string, TRUE, FALSE or NULL)")

    def _parse_alter_table(self, supertable: bool) -> SetTags | AlterTable | SetTableOptions:
        table = self._parse_name("a supertable" if supertable else "a table")
        if self._token.word in ALTER_OPTIONS:
            return self._parse_altered_options(table, supertable)
        action = self._expect_one(*(ALTERATIONS if supertable else ("SET", *ALTERATIONS)))
        if action == "SET":
            self._expect("TAG")
            return SetTags(table, self._parse_list(self._parse_assignment))
        is_tag = self._expect_one("COLUMN", "TAG") == "TAG"
        return self._parse_alteration(action, table, is_tag, supertable)

    def _parse_altered_options(self, table: Name, supertable: bool) -> SetTableOptions:
        token = self._token
        comment, ttl_days = self._parse_table_options()
        if supertable and ttl_days:
            self._fail_supertable_ttl(token)
        return SetTableOptions(table, comment, supertable, ttl_days)

    def _parse_alteration(self, action: str, table: Name, is_tag: bool, supertable: bool) -> AlterTable:
        """Parse a column or tag after `ADD COLUMN`, `DROP TAG` and the like."""
        start, what = self._index, "a tag" if is_tag else "a column"
        if action == "ADD":
            return AddColumn(table, self._parse_altered_column(is_tag), is_tag, supertable)
        if action == "MODIFY":
            return ModifyColumn(table, self._parse_altered_column(is_tag), is_tag, supertable)
        name = self._parse_identifier(what)
        if action == "DROP":
            return DropColumn(table, name, is_tag, supertable, self._span(start))
        return RenameColumn(table, name, self._parse_identifier(what), is_tag, supertable, self._span(start))

    def _parse_altered_column(self, is_tag: bool) -> Column:
        """Parse a column with its type, skipping compression."""
        start = self._index
        name = self._parse_identifier("a tag" if is_tag else "a column")
        type_ = self._parse_column_type()
        if not is_tag:
            self._skip_compression()
        return Column(name, type_, comment=self._parse_comment(), span=self._span(start))

    def _parse_assignment(self) -> tuple[str, TagValue]:
        name = self._parse_identifier("a tag")
        self._expect("=")
        return name, self._parse_tag_value()

    def _parse_drop_table(self, supertable: bool = False) -> DropTable:
        """Parse `[IF EXISTS] a [, [IF EXISTS] b …]`. The first IF EXISTS applies to all tables."""
        if_exists = self._parse_exists()
        names = self._parse_list(lambda: self._parse_dropped_name(if_exists))
        return DropTable(names, if_exists, supertable)

    def _parse_dropped_name(self, if_exists: bool) -> Name:
        if if_exists:
            self._parse_exists()
        return self._parse_name("a table")
