"""Jobs, their ledgers (chunks of backfills, executions of continuous queries), and events."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Named,
    RowMapping,
    String,
    Table,
    Text,
    TypedColumns,
    UniqueConstraint,
    literal,
)

from headrace.catalog.rows.metadata import METADATA, NAME, WHERE
from headrace.model import conversion
from headrace.model.continuous_queries import ExecutionState
from headrace.model.job_parts import part_number
from headrace.model.jobs import JobDefinition, JobProgress, JobRecord
from headrace.model.tables import TableId

OF_PART: Final = "\x1f"
"""Precedes the number of a part at the end of the name and the target of all parts of a stream but the first: both are unique."""


class JobColumns(TypedColumns):
    """Columns of `jobs`; `pruned` is the last instant up to which executions of a continuous query have been removed."""

    id: Named[str] = Column(String, primary_key=True)
    kind: Named[str]
    database: Named[str] = Column(NAME)
    name: Named[str] = Column(NAME)
    sql: Named[str] = Column(Text)
    dialect: Named[str]
    sources: Named[list[dict[str, str]]] = Column(JSON)
    target_database: Named[str | None] = Column(String, nullable=True)
    target_table: Named[str | None] = Column(String, nullable=True)
    schema: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    continuous_query: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    replaces: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    functions: Named[list[str]] = Column(JSON)
    pipe: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    owner: Named[str] = Column(NAME)
    created: Named[int] = Column(BigInteger)
    snode: Named[str] = Column(NAME, index=True)
    desired: Named[str]
    state: Named[str]
    reason: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    position: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    boundary: Named[dict[str, int] | None] = Column(JSON(none_as_null=True), nullable=True)
    skip_to: Named[dict[str, int] | None] = Column(JSON(none_as_null=True), nullable=True)
    quarantine_requested: Named[int | None] = Column(BigInteger, nullable=True)
    watermark: Named[int | None] = Column(BigInteger, nullable=True)
    updated: Named[int | None] = Column(BigInteger, nullable=True)
    pending_since: Named[int | None] = Column(BigInteger, nullable=True)
    counters: Named[dict[str, int]] = Column(JSON)
    pruned: Named[int | None] = Column(BigInteger, nullable=True)


JOBS = Table(
    "jobs", METADATA, JobColumns, UniqueConstraint("database", "kind", "name"), UniqueConstraint("target_database", "target_table")
)

PROGRESS = tuple(field.name for field in dataclasses.fields(JobProgress))
CHANGING = ("desired", "state", "reason", "skip_to", "quarantine_requested", *PROGRESS)
LEDGER = ("pruned",)
"""Columns that are neither part of a definition nor of a status."""
STATUS = tuple(JOBS.c[name] for name in ("id", "sql", "snode", "created", "pipe", *CHANGING))
"""The columns that change, and those that show whether a definition has."""
DEFINITION = tuple(column for column in JOBS.c if column.name not in (*CHANGING, *LEDGER))


def to_row(record: JobRecord) -> dict[str, Any]:
    return {
        **definition_to_row(record.definition),
        **conversion.to_row(record.progress),
        **conversion.to_row(record, "definition", "progress"),
    }


def from_row(row: RowMapping, definition: JobDefinition) -> JobRecord:
    return conversion.from_row(JobRecord, {**row, "definition": definition, "progress": dict(row)})


def definition_to_row(definition: JobDefinition) -> dict[str, Any]:
    """Convert a definition to its columns of the job's row."""
    target, part = definition.target, part_number(definition.id)
    names = (None, None) if target is None else (target.database, target.name)
    row = {**conversion.to_row(definition, "target"), "target_database": names[0], "target_table": names[1]}
    return row | {name: f"{row[name]}{OF_PART}{part}" for name in ("name", "target_table") if part}


def definition_from_row(row: Mapping[str, Any] | RowMapping) -> JobDefinition:
    """Read the definition from a job's row."""
    name, _, _ = row["name"].partition(OF_PART)
    target = None if row["target_table"] is None else TableId(row["target_database"], row["target_table"].partition(OF_PART)[0])
    return conversion.from_row(JobDefinition, {**row, "name": name, "target": target})


class _JobVersionColumns(TypedColumns):
    job_id: Named[str] = Column(String, primary_key=True)
    number: Named[int] = Column(Integer, primary_key=True, autoincrement=False)
    time: Named[int] = Column(BigInteger)
    user_name: Named[str] = Column(NAME)
    sql: Named[str] = Column(Text)


JOB_VERSIONS = Table(
    "job_versions", METADATA, _JobVersionColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE")
)


class _ChunkColumns(TypedColumns):
    job_id: Named[str] = Column(String, primary_key=True)
    run: Named[str] = Column(NAME, primary_key=True)
    number: Named[int] = Column(Integer, primary_key=True, autoincrement=False)
    start: Named[int] = Column(BigInteger)
    end: Named[int] = Column(BigInteger)
    first_series: Named[str | None] = Column(Text, nullable=True)
    end_series: Named[str | None] = Column(Text, nullable=True)
    rows: Named[int] = Column(BigInteger)
    state: Named[str]
    message: Named[str | None] = Column(Text, nullable=True)
    holder: Named[str | None]
    claimed: Named[int | None] = Column(BigInteger, nullable=True)
    finished: Named[int | None] = Column(BigInteger, nullable=True)
    rows_done: Named[int | None] = Column(BigInteger, nullable=True)


CHUNKS = Table("chunks", METADATA, _ChunkColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"))


class _ExecutionColumns(TypedColumns):
    job_id: Named[str] = Column(String, primary_key=True)
    scheduled: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    start: Named[int] = Column(BigInteger)
    end: Named[int] = Column(BigInteger)
    state: Named[str]
    attempt: Named[int] = Column(Integer)
    holder: Named[str]
    rows: Named[int | None] = Column(BigInteger, nullable=True)
    started: Named[int | None] = Column(BigInteger, nullable=True)
    finished: Named[int | None] = Column(BigInteger, nullable=True)
    message: Named[str | None] = Column(Text, nullable=True)


EXECUTIONS = Table("executions", METADATA, _ExecutionColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"))
IS_STARTED = EXECUTIONS.c.state != ExecutionState.PENDING.value
# The state is written into the statement, since a partial index only serves conditions that are its own.
IS_UNFINISHED = EXECUTIONS.c.state != literal(ExecutionState.DONE.value, literal_execute=True)
# Most executions are done, and those that are not are asked for all the time. Only who creates the index imports a dialect.
Index("ix_executions_unfinished", EXECUTIONS.c.job_id, EXECUTIONS.c.scheduled, info={WHERE: IS_UNFINISHED})


class _DroppedQueryColumns(TypedColumns):
    name: Named[str] = Column(NAME, primary_key=True)
    number: Named[int] = Column(Integer)


DROPPED_QUERIES = Table("dropped_queries", METADATA, _DroppedQueryColumns)


class _EventColumns(TypedColumns):
    # SQLite only numbers rows automatically if the key is an INTEGER, which has 64 bits there.
    id: Named[int] = Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    time: Named[int] = Column(BigInteger)
    subject_kind: Named[str]
    subject: Named[str]
    kind: Named[str]
    message: Named[str] = Column(Text)


EVENTS = Table("events", METADATA, _EventColumns, Index(None, "subject_kind", "subject"))
