"""Jobs: definition, desired and observed state, progress."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Named,
    RowMapping,
    String,
    Table,
    Text,
    TypedColumns,
    UniqueConstraint,
)

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import conversion
from headrace.model.jobs import JobDefinition, JobProgress, JobRecord
from headrace.model.tables import TableId


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
    "jobs",
    METADATA,
    JobColumns,
    UniqueConstraint("database", "kind", "name"),
    UniqueConstraint("target_database", "target_table"),
)

PROGRESS = tuple(field.name for field in dataclasses.fields(JobProgress))
CHANGING = ("desired", "state", "reason", "skip_to", "quarantine_requested", *PROGRESS)
LEDGER = ("pruned",)
"""Columns that are neither part of a definition nor of a status."""
STATUS = tuple(JOBS.c[name] for name in ("id", "sql", "snode", "created", *CHANGING))
"""The columns that change, and those that show whether a definition has."""
DEFINITION = tuple(column for column in JOBS.c if column.name not in (*CHANGING, *LEDGER))


def to_row(record: JobRecord) -> dict[str, Any]:
    status = conversion.to_row(record, "definition", "progress")
    return {**definition_to_row(record.definition), **conversion.to_row(record.progress), **status}


def from_row(row: RowMapping, definition: JobDefinition) -> JobRecord:
    return conversion.from_row(JobRecord, {**row, "definition": definition, "progress": dict(row)})


def definition_to_row(definition: JobDefinition) -> dict[str, Any]:
    """Convert a definition to its columns of the job's row."""
    target = definition.target
    names = (None, None) if target is None else (target.database, target.name)
    return {**conversion.to_row(definition, "target"), "target_database": names[0], "target_table": names[1]}


def definition_from_row(row: Mapping[str, Any] | RowMapping) -> JobDefinition:
    """Read the definition from a job's row."""
    target = None if row["target_table"] is None else TableId(row["target_database"], row["target_table"])
    return conversion.from_row(JobDefinition, {**row, "target": target})
