"""What a statement will do, as a list of small values. EXPLAIN describes the very list that the executor applies.

Every stage says by `required` what rights it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.model.progress import silent
from headrace.service.rights import (
    CATALOG,
    Action,
    ObjectKind,
    Right,
    Securable,
    database_securable,
    required_rights,
    stream_securable,
    table_securable,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.compute import AnyPlan
    from headrace.model.jobs import JobDefinition, JobRecord
    from headrace.model.progress import Progress
    from headrace.model.queries import Query, Union
    from headrace.model.tables import Column, Database, Subtable, Table
    from headrace.service.results import Result
    from headrace.streams.definition.define import StreamPlan


@dataclass(frozen=True, slots=True)
class MakeDatabase:
    database: Database
    if_not_exists: bool

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.CREATE, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class RemoveDatabase:
    name: str
    tables: tuple[Table, ...]
    streams: tuple[JobRecord, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DROP, database_securable(self.name)),)


@dataclass(frozen=True, slots=True)
class EnterDatabase:
    name: str

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DESCRIBE, database_securable(self.name)),)


@dataclass(frozen=True, slots=True)
class MakeTable:
    table: Table
    database: Database
    if_not_exists: bool

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.CREATE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RemoveTable:
    table: Table
    database: Database

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DROP, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class AddColumn:
    table: Table
    database: Database
    column: Column
    is_tag: bool

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class DropColumn:
    table: Table
    name: str
    is_tag: bool

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """Give a column or tag a longer declared type; what is stored stays as it is."""

    table: Table
    column: Column
    is_tag: bool

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RenameTag:
    table: Table
    old: str
    new: str

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class MakeSubtables:
    """`tags`: `tbname` and a column a tag, a row for each subtable."""

    table: Table
    database: Database
    tags: pa.Table

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RemoveSubtables:
    table: Table
    database: Database
    subtables: tuple[Subtable, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        return tuple(Right(Action.DROP, table_securable(self.table, subtable.name)) for subtable in self.subtables)


@dataclass(frozen=True, slots=True)
class WriteTags:
    table: Table
    tags: pa.Table

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class WriteRows:
    """`rows` in stored types, with `tbname`; `given` are the columns that the statement names."""

    table: Table
    database: Database
    rows: pa.Table
    given: tuple[str, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Rows of some subtables (None: all) within ranges of ticks, both ends inclusive (None: of all times)."""

    table: Table
    database: Database
    tbnames: tuple[str, ...] | None
    ranges: tuple[tuple[int, int], ...] | None

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RunQuery:
    plan: AnyPlan

    @property
    def required(self) -> tuple[Right, ...]:
        return reads(self.plan)


@dataclass(frozen=True, slots=True)
class ReadCatalog:
    """SHOW and DESCRIBE: answered from the catalog alone."""

    what: str
    read: Callable[[], Result]
    required: tuple[Right, ...]


@dataclass(frozen=True, slots=True)
class DescribeStages:
    """Describe the stages of another statement, and the rights that they need."""

    stages: tuple[Stage, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """To see the objects is enough: EXPLAIN is how one learns which rights are missing."""
        return tuple(dict.fromkeys(Right(Action.DESCRIBE, right.target) for right in required_rights(self.stages)))


@dataclass(frozen=True, slots=True)
class RecordStream:
    """Create the stream, with its target where that is missing, and with where it begins."""

    plan: StreamPlan
    if_not_exists: bool

    @property
    def required(self) -> tuple[Right, ...]:
        target = Right(Action.WRITE if self.plan.target_exists else Action.CREATE, table_securable(self.plan.target))
        return (Right(Action.CREATE, stream_of(self.plan)), Right(Action.READ, table_securable(self.plan.source)), target)


@dataclass(frozen=True, slots=True)
class FillHistory:
    """The rows that are there already: an estimate of how many, and in how many chunks.

    They are filled by a driver or by Airflow; the stream's record says up to which version.
    """

    plan: StreamPlan
    rows: int
    chunks: int

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.READ, table_securable(self.plan.source)), Right(Action.WRITE, table_securable(self.plan.target)))


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell Airflow, where one can be reached, that a stream has come, gone or been resumed."""

    database: str
    stream: str
    resumed: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DESCRIBE, Securable(ObjectKind.STREAM, self.database, self.stream)),)


@dataclass(frozen=True, slots=True)
class RemoveStream:
    record: JobRecord

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DROP, stream_securable(self.record.definition)),)


@dataclass(frozen=True, slots=True)
class HoldStream:
    record: JobRecord

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.OPERATE, stream_securable(self.record.definition)),)


@dataclass(frozen=True, slots=True)
class ContinueStream:
    record: JobRecord
    ignore_untreated: bool

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.OPERATE, stream_securable(self.record.definition)),)


@dataclass(frozen=True, slots=True)
class LoadFiles:
    """Files into a table, all or nothing. `subtable` is that of all rows; if None, a column `tbname` names it.

    `format` is csv, parquet or ndjson; if None, the names of the files tell it.
    """

    table: Table
    database: Database
    files: tuple[Path, ...]
    subtable: str | None
    bytes: int
    format: str | None = None
    progress: Progress = field(default=silent, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class Backfill:
    """Compute the closed windows that start in `[start, end)` again; ticks of the source, None is open."""

    definition: JobDefinition
    start: int | None
    end: int | None
    chunk_rows: int | None
    progress: Progress = field(default=silent, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.OPERATE, stream_securable(self.definition)),)


@dataclass(frozen=True, slots=True)
class VerifyQuery:
    """Answer a query, and compare with what DuckDB makes of the stored rows. `sql` is the query's text."""

    query: Query | Union
    plan: AnyPlan
    sql: str

    @property
    def required(self) -> tuple[Right, ...]:
        return reads(self.plan)


@dataclass(frozen=True, slots=True)
class VerifyStream:
    """Compare a stream's target with what DuckDB makes of the rows that the stream has handled."""

    definition: JobDefinition

    @property
    def required(self) -> tuple[Right, ...]:
        stream = self.definition
        tables = (*stream.sources, *((stream.target,) if stream.target is not None else ()))
        return tuple(Right(Action.READ, Securable(ObjectKind.TABLE, table.database, table.name)) for table in tables)


def reads(plan: AnyPlan) -> tuple[Right, ...]:
    """The rights to read each table of a query; a query without a table only needs the catalog to be there."""
    rights = tuple(dict.fromkeys(Right(Action.READ, table_securable(scan.table)) for scan in plan.scans))
    return rights or (Right(Action.DESCRIBE, CATALOG),)


def stream_of(plan: StreamPlan) -> Securable:
    return Securable(ObjectKind.STREAM, plan.database, plan.name)


Stage = (
    MakeDatabase
    | RemoveDatabase
    | EnterDatabase
    | MakeTable
    | RemoveTable
    | AddColumn
    | DropColumn
    | ModifyColumn
    | RenameTag
    | MakeSubtables
    | RemoveSubtables
    | WriteTags
    | WriteRows
    | DeleteRows
    | RunQuery
    | ReadCatalog
    | RecordStream
    | FillHistory
    | Announce
    | RemoveStream
    | HoldStream
    | ContinueStream
    | DescribeStages
    | LoadFiles
    | Backfill
    | VerifyQuery
    | VerifyStream
)
