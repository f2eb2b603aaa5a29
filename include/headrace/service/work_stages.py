"""Stages of long work that no statement expresses: loads, backfills, verifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.model.progress import no_progress
from headrace.service.dispatched import DispatchedStage
from headrace.service.rights import (
    CATALOG,
    Action,
    ObjectKind,
    Right,
    Securable,
    job_securable,
    table_securable,
)

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.model.jobs import JobDefinition
    from headrace.model.progress import Progress
    from headrace.model.queries import Query, Union
    from headrace.model.tables import Database, Table
    from headrace.queries.insertion import InsertTarget
    from headrace.storage.loading.inserted import InsertedFile


@dataclass(frozen=True, slots=True)
class LoadFiles(DispatchedStage):
    """Load files into a table, all or nothing.

    Attributes:
        subtable: The subtable of all rows; if None, a column `tbname` names it.
        bytes: Size of all files.
        format: `csv`, `parquet` or `ndjson`; if None, the files' extensions decide.
    """

    table: Table
    database: Database
    files: tuple[Path, ...]
    subtable: str | None
    bytes: int
    format: str | None = None
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the table."""
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class InsertFiles(DispatchedStage):
    """Load the files of an INSERT into subtables of one table, all or nothing, in one commit."""

    table: Table
    database: Database
    files: tuple[InsertedFile, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the table."""
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class InsertQuery(DispatchedStage):
    """Write the result of a query to a table, all or nothing, in one commit.

    Attributes:
        target: The table and its columns that the query's columns are written to.
        plan: The query.
    """

    target: InsertTarget
    plan: AnyPlan

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the table, and READ on each table of the query."""
        return (Right(Action.WRITE, table_securable(self.target.table)), *read_rights(self.plan))


@dataclass(frozen=True, slots=True)
class Backfill(DispatchedStage):
    """Recompute the closed windows that start in `[start, end)`, in ticks of the source; None is open."""

    definition: JobDefinition
    start: int | None
    end: int | None
    chunk_rows: int | None
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the stream."""
        return (Right(Action.OPERATE, job_securable(self.definition)),)


@dataclass(frozen=True, slots=True)
class BackfillQuery(DispatchedStage):
    """Execute a continuous query again for all ranges that overlap `[start, end)`, in epoch milliseconds; None is open.

    `executions` is their number when it was planned.
    """

    definition: JobDefinition
    start: int | None
    end: int | None
    executions: int
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the continuous query."""
        return (Right(Action.OPERATE, job_securable(self.definition)),)


@dataclass(frozen=True, slots=True)
class VerifyQuery(DispatchedStage):
    """Run a query with Spark and with DuckDB, and compare. `sql` is the query's text."""

    query: Query | Union
    plan: AnyPlan
    sql: str

    @property
    def required(self) -> tuple[Right, ...]:
        """READ on each table of the query."""
        return read_rights(self.plan)


@dataclass(frozen=True, slots=True)
class VerifyContinuousQuery(DispatchedStage):
    """Compare what a continuous query has written in `[start, end)` with DuckDB; with None for both, its latest execution."""

    definition: JobDefinition
    start: int | None
    end: int | None

    @property
    def required(self) -> tuple[Right, ...]:
        """READ on the catalog, since its paths may name any series."""
        return (Right(Action.READ, CATALOG),)


@dataclass(frozen=True, slots=True)
class VerifyStream(DispatchedStage):
    """Compare a stream's target with what DuckDB computes from the rows that the stream has processed."""

    definition: JobDefinition

    @property
    def required(self) -> tuple[Right, ...]:
        """READ on the stream's sources and target."""
        stream = self.definition
        tables = (*stream.sources, *((stream.target,) if stream.target is not None else ()))
        return tuple(Right(Action.READ, Securable(ObjectKind.TABLE, table.database, table.name)) for table in tables)


def read_rights(plan: AnyPlan) -> tuple[Right, ...]:
    """Return the rights to read each table of a query; a query without a table needs DESCRIBE on the catalog."""
    rights = tuple(dict.fromkeys(Right(Action.READ, table_securable(scan.table)) for scan in plan.scans))
    return rights or (Right(Action.DESCRIBE, CATALOG),)
