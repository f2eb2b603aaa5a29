"""Databases, supertables and subtables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.model.external_tables import NODE_SEPARATOR, SERIES_SEPARATOR, External
from headrace.model.paths import is_path
from headrace.model.spans import Span
from headrace.model.time import Duration, Precision
from headrace.model.types import DataType

TBNAME = "tbname"
DEVICE = "device"
HISTORY_HOURS: Final = 12
"""How long versions of a table are kept for readers that the catalog does not know."""


@dataclass(frozen=True, slots=True)
class Name:
    """A table's or stream's name as written; `database` is None for the current one."""

    database: str | None
    name: str
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name if self.database is None else f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table of the catalog by its database and name."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column or tag; `is_key` marks the composite key column that follows the timestamp."""

    name: str
    type: DataType
    is_key: bool = False
    comment: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Database:
    """A database, with the precision of its timestamps and its time zone."""

    name: str
    precision: Precision = Precision.MILLISECOND
    timezone: str = "UTC"
    options: tuple[tuple[str, str], ...] = ()

    @property
    def keep_ms(self) -> int | None:
        """How long rows are to be kept, in milliseconds: the longest time of KEEP; None if the database was created without it."""
        times = [text.strip() for text in dict(self.options).get("keep", "").split(",") if text.strip()]
        lengths = [Duration(int(text), "d") if text.isdigit() else Duration(int(text[:-1]), text[-1]) for text in times]
        return max((length.nanoseconds // 1_000_000 for length in lengths), default=None)


class TableKind(StrEnum):
    """What a table contains: subtables with tags, one series, or a tree of devices."""

    SUPER = "super"
    PLAIN = "plain"
    TREE = "tree"

    @property
    def series_key(self) -> str:
        """Name of the column that identifies the series of such a table."""
        return DEVICE if self is TableKind.TREE else TBNAME


@dataclass(frozen=True, slots=True, order=True)
class ColumnReference:
    """The stored column that fills a column of one series of a virtual table: a virtual subtable, or the table itself."""

    series: str
    column: str
    origin: TableId
    origin_series: str
    origin_column: str

    def __str__(self) -> str:
        """Return the origin as statements write it."""
        return f"{self.origin.database}.{self.origin_series}.{self.origin_column}"


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table: a supertable; a plain table, which has no tags and one subtable of its own name; or a tree of devices.

    The first column is the timestamp; a second column with `is_key` completes the primary key (series key, ts, key). The series
    key is stored after the columns and is not one of them. A virtual table stores no rows, only the tags of its subtables: its
    columns are those of other tables (`ColumnReference`), aligned by time. An `external` table is read where another writer has it.
    Its keys need not be unique, and its rows have their own tags.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    tags: tuple[Column, ...] = ()
    kind: TableKind = TableKind.SUPER
    is_virtual: bool = False
    comment: str | None = None
    external: External | None = None

    @property
    def id(self) -> TableId:
        """Database and name."""
        return TableId(self.database, self.name)

    @property
    def timestamp(self) -> Column:
        """The first column, which orders rows."""
        return self.columns[0]

    @property
    def series_key(self) -> str:
        """Name of the column that identifies the series of this table."""
        return self.kind.series_key

    @property
    def has_series(self) -> bool:
        """Whether rows may be of more than one series."""
        return self.kind is not TableKind.PLAIN

    @property
    def key(self) -> Column | None:
        """The composite key column, if one is declared."""
        return self.columns[1] if len(self.columns) > 1 and self.columns[1].is_key else None

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Stored columns that identify a row."""
        return (self.series_key, self.timestamp.name, *((self.key.name,) if self.key else ()))

    @property
    def series_separator(self) -> str:
        """What is between the values that name a series of an external table; in the IoTDB language they are nodes of a path."""
        return NODE_SEPARATOR if is_path(self.database) else SERIES_SEPARATOR

    def column(self, name: str) -> Column | None:
        """Return the column or tag of a name, or None."""
        return next((column for column in (*self.columns, *self.tags) if column.name == name), None)

    def is_tag(self, name: str) -> bool:
        """Return True if a tag has this name."""
        return any(tag.name == name for tag in self.tags)

    def is_joined(self, name: str) -> bool:
        """Return True if a tag has this name, and is joined to the rows by their series."""
        return self.external is None and self.is_tag(name)


@dataclass(frozen=True, slots=True)
class Subtable:
    """The table that holds the rows of one `tbname`."""

    database: str
    name: str
    table: str

    @property
    def uid(self) -> int:
        """The id of its group in a stream: 63 bits of the MD5 of its name, so that a recreated subtable keeps its group."""
        message = uid_prefix(self.database) + self.name.encode()
        return int.from_bytes(hashlib.md5(message, usedforsecurity=False).digest()[:8], "little") >> 1 or 1


def uid_prefix(database: str) -> bytes:
    """Return what the MD5 behind the uid of a subtable covers before its name."""
    return f"{database}\0".encode()
