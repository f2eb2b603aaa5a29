"""Statements as data, before names are resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headrace.model.expressions import Expression, Scalar
from headrace.model.notifications import Notification
from headrace.model.queries import Query, Union
from headrace.model.spans import Span
from headrace.model.streams import ErrorPolicy, StreamOptions
from headrace.model.tables import Column, Name
from headrace.model.time import Duration, Precision
from headrace.model.types import DataType
from headrace.model.values import Now, RowValue, Statement

__all__ = ["Now", "RowValue", "Statement"]


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """`CREATE DATABASE`."""

    name: Name
    if_not_exists: bool = False
    precision: Precision = Precision.MILLISECOND
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """`ALTER DATABASE`."""

    name: Name
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MaintainDatabase(Statement):
    """`COMPACT DATABASE name [START WITH text or ticks] [END WITH …]`, both inclusive, or `FLUSH`, which has nothing to do."""

    name: Name
    compact: bool
    start: str | int | None = None
    end: str | int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    """`DROP DATABASE`, which drops its tables and streams."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class UseDatabase(Statement):
    """`USE database`."""

    name: Name


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """`CREATE STABLE`, or `CREATE TABLE` with columns; without tags it is a plain table. `is_virtual` is `VIRTUAL 1`."""

    name: Name
    columns: tuple[Column, ...]
    tags: tuple[Column, ...] = ()
    if_not_exists: bool = False
    comment: str | None = None
    is_virtual: bool = False
    ttl_days: int = 0


@dataclass(frozen=True, slots=True)
class TagValue:
    """A tag's constant. Text stays text until it is converted to the tag's type."""

    value: Scalar
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SubtableSpec:
    """`name USING supertable [(tag, …)] TAGS (value, …) [TTL days]`; `tag_names` is None if all tags are there in order."""

    name: Name
    using: Name
    tag_values: tuple[TagValue, ...]
    tag_names: tuple[str, ...] | None = None
    if_not_exists: bool = False
    ttl_days: int = 0


@dataclass(frozen=True, slots=True)
class CreateSubtables(Statement):
    """`CREATE TABLE … USING … TAGS (…)`, for one or more subtables."""

    subtables: tuple[SubtableSpec, ...]


@dataclass(frozen=True, slots=True)
class CreateSubtablesFromFile(Statement):
    """`CREATE TABLE USING supertable (tbname, tag, …) FILE 'path'`; `columns` are those of the file, in order."""

    using: Name
    columns: tuple[str, ...]
    path: str
    if_not_exists: bool = False
    column_span: Span | None = field(default=None, compare=False)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Origin:
    """`[database.]table.column`: the stored column that fills a column of a virtual table."""

    table: Name
    column: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateVirtualTable(Statement):
    """`CREATE VTABLE name (ts TIMESTAMP, column type [FROM origin], …)`; one origin for each column, None without FROM."""

    name: Name
    columns: tuple[Column, ...]
    origins: tuple[Origin | None, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateVirtualSubtable(Statement):
    """`CREATE VTABLE name ([column FROM] origin, …) USING supertable TAGS (…)`.

    `origins` are pairs of a column and its origin; without names, columns are in the order of the supertable.
    """

    spec: SubtableSpec
    origins: tuple[tuple[str | None, Origin], ...]


@dataclass(frozen=True, slots=True)
class InsertBlock:
    """Rows for one table, of the `columns` or all in order; `using` creates a missing subtable. `row_spans` are for messages."""

    table: Name
    rows: tuple[tuple[RowValue, ...], ...]
    columns: tuple[str, ...] | None = None
    using: SubtableSpec | None = None
    row_spans: tuple[Span, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """`INSERT INTO`, for one or more tables."""

    blocks: tuple[InsertBlock, ...]


@dataclass(frozen=True, slots=True)
class FileBlock:
    """`table [USING …] [(columns)] FILE 'path'`; `columns` is None if the file or the table names them."""

    table: Name
    path: str
    columns: tuple[str, ...] | None = None
    using: SubtableSpec | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class InsertFiles(Statement):
    """`INSERT INTO … FILE`, for one or more tables."""

    blocks: tuple[FileBlock, ...]


@dataclass(frozen=True, slots=True)
class InsertSelect(Statement):
    """`INSERT INTO table [(columns)] SELECT …`; `columns` is None if the query has all columns in order."""

    table: Name
    query: Query | Union
    columns: tuple[str, ...] | None = None
    column_span: Span | None = field(default=None, compare=False)
    query_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """`DELETE FROM`."""

    table: Name
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    """`DROP TABLE a, b` (plain tables and subtables), with `supertable` `DROP STABLE a`, with `is_virtual` `DROP VTABLE a`."""

    names: tuple[Name, ...]
    if_exists: bool = False
    supertable: bool = False
    is_virtual: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn(Statement):
    """`ALTER TABLE|STABLE table ADD COLUMN|TAG name type`; `supertable` is `ALTER STABLE`."""

    table: Name
    column: Column
    is_tag: bool = False
    supertable: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn(Statement):
    """`ALTER TABLE|STABLE table DROP COLUMN|TAG name`."""

    table: Name
    name: str
    is_tag: bool = False
    supertable: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ModifyColumn(Statement):
    """`ALTER TABLE|STABLE table MODIFY COLUMN|TAG name type`: the column with its new type."""

    table: Name
    column: Column
    is_tag: bool = False
    supertable: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn(Statement):
    """`ALTER TABLE|STABLE table RENAME COLUMN|TAG name new_name`."""

    table: Name
    name: str
    new_name: str
    is_tag: bool = False
    supertable: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetTableOptions(Statement):
    """`ALTER TABLE|STABLE table [COMMENT 'text'] [TTL days]`; what is None stays as it is."""

    table: Name
    comment: str | None
    supertable: bool = False
    ttl_days: int | None = None


AlterTable = AddColumn | DropColumn | ModifyColumn | RenameColumn


@dataclass(frozen=True, slots=True)
class AlterVirtualTable(Statement):
    """`ALTER VTABLE table ADD|DROP|MODIFY|RENAME COLUMN …`; `origin` is that of an added column."""

    change: AlterTable
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class SetOrigin(Statement):
    """`ALTER VTABLE table ALTER COLUMN column SET origin|NULL`."""

    table: Name
    column: str
    origin: Origin | None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetTags(Statement):
    """`ALTER TABLE|VTABLE subtable SET TAG name = value [, …]`."""

    table: Name
    values: tuple[tuple[str, TagValue], ...]
    is_virtual: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """`DESCRIBE table`."""

    table: Name


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`SHOW what [FROM …] [LIKE …]`; `what` is what is shown, in small letters, such as `streams` or `create table`."""

    what: str
    name: Name | None = None
    database: str | None = None
    like: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """A query as a statement."""

    query: Query | Union


@dataclass(frozen=True, slots=True)
class TargetTag:
    """`TAGS(name [type])` of a stream's target; without a type it binds a tag of an existing table."""

    column: Column | None
    name: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column in the target list of `CREATE STREAM … INTO target (…)`."""

    name: str
    is_key: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateStream(Statement):
    """`CREATE STREAM`. `text` is the statement as it was entered, `option_spans` has the position of each option's value."""

    name: Name
    target: Name
    query: Query
    options: StreamOptions = field(default_factory=StreamOptions)
    columns: tuple[TargetColumn, ...] | None = None
    tags: tuple[TargetTag, ...] | None = None
    subtable: Expression | None = None
    notification: Notification | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    text: str = field(default="", compare=False)
    option_spans: Mapping[str, Span] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class AlterStream(Statement):
    """`ALTER STREAM name option …`: the options that can change while a stream keeps its results; None leaves one as it is."""

    name: Name
    watermark: Duration | None = None
    ignore_expired: bool | None = None
    ignore_update: bool | None = None
    max_ahead: Duration | None = None
    on_error: ErrorPolicy | None = None
    if_exists: bool = False

    def apply(self, options: StreamOptions) -> StreamOptions:
        """Return the options of a stream with the changes."""
        changes: dict[str, Any] = {name: getattr(self, name) for name in ALTERABLE_OPTIONS}
        return replace(options, **{name: value for name, value in changes.items() if value is not None})


ALTERABLE_OPTIONS: Final = ("watermark", "ignore_expired", "ignore_update", "max_ahead", "on_error")
"""Options of a stream that only decide on later rows, as fields of `StreamOptions`."""


@dataclass(frozen=True, slots=True)
class StreamStatement(Statement):
    """A statement about an existing stream."""

    name: Name
    if_exists: bool = False


class ResetStream(StreamStatement):
    """`RESET STREAM`: compute the stream again from the stored rows of its source."""


class ReplayStream(StreamStatement):
    """`REPLAY QUARANTINE OF STREAM name`: process the rows that the stream has set aside again."""


class DropQuarantine(StreamStatement):
    """`DROP QUARANTINE OF STREAM name`: leave the rows that the stream has set aside out for good."""


class DropStream(StreamStatement):
    """`DROP STREAM`; its target stays."""


class PauseStream(StreamStatement):
    """`PAUSE STREAM`."""


@dataclass(frozen=True, slots=True)
class ResumeStream(StreamStatement):
    """`RESUME STREAM`, with `IGNORE UNTREATED` skipping rows written meanwhile."""

    ignore_untreated: bool = False


@dataclass(frozen=True, slots=True)
class SnodeStatement(Statement):
    """A statement about an snode."""

    dnode: int
    span: Span | None = field(default=None, compare=False)


class CreateSnode(SnodeStatement):
    """`CREATE SNODE ON DNODE n`."""


class DropSnode(SnodeStatement):
    """`DROP SNODE ON DNODE n`."""


@dataclass(frozen=True, slots=True)
class KillQuery(Statement):
    """`KILL QUERY 'id'`, with an id of SHOW QUERIES."""

    id: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KillConnection(Statement):
    """`KILL CONNECTION id`, with an id of SHOW CONNECTIONS."""

    id: int
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """`EXPLAIN [ANALYZE [VERBOSE]] statement`; `analyze` runs a query, and `verbose` reports on each of its operators."""

    statement: Statement
    analyze: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class CreateModuleFunction(Statement):
    """`CREATE [OR REPLACE] [AGGREGATE] FUNCTION name AS 'file' OUTPUTTYPE type [BUFSIZE bytes] LANGUAGE 'Python'`."""

    name: str
    path: str
    output_type: DataType
    is_aggregate: bool = False
    buffer_size: int = 0
    if_not_exists: bool = False
    or_replace: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropModuleFunction(Statement):
    """`DROP FUNCTION [IF EXISTS] name`."""

    name: str
    if_exists: bool = False
    span: Span | None = field(default=None, compare=False)
