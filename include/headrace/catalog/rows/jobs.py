"""Jobs: definition, desired and observed state, progress."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
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
from headrace.catalog.rows.tables import column_from_json, column_to_json
from headrace.model.continuous_queries import ContinuousQuery, Schedule
from headrace.model.jobs import (
    DesiredState,
    JobCounters,
    JobDefinition,
    JobKind,
    JobProgress,
    JobRecord,
    JobState,
    Replacement,
    StopReason,
)
from headrace.model.positions import Offsets, Position
from headrace.model.streams import StreamSchema
from headrace.model.tables import ColumnReference, TableId
from headrace.model.tree_statements import TimeoutPolicy


class JobColumns(TypedColumns):
    """Columns of `jobs`; `pruned` is the last instant up to which executions of a continuous query have been removed."""

    id: Named[str] = Column(String, primary_key=True)
    kind: Named[str]
    database: Named[str] = Column(NAME)
    name: Named[str] = Column(NAME)
    sql: Named[str] = Column(Text)
    dialect: Named[str]
    sources: Named[list[list[str]]] = Column(JSON)
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

PLAIN_PROGRESS = ("watermark", "updated", "pending_since")
CHANGING = ("desired", "state", "reason", "position", "boundary", "skip_to", "quarantine_requested", *PLAIN_PROGRESS, "counters")
LEDGER = ("pruned",)
"""Columns that are neither part of a definition nor of a status."""
STATUS = tuple(JOBS.c[name] for name in ("id", "sql", "snode", "created", *CHANGING))
"""The columns that change, and those that show whether a definition has."""
DEFINITION = tuple(column for column in JOBS.c if column.name not in (*CHANGING, *LEDGER))


def to_row(record: JobRecord) -> dict[str, Any]:
    """Convert a job to its catalog row."""
    return {
        **definition_to_row(record.definition),
        "desired": record.desired.value,
        "reason": reason_to_json(record.reason),
        "state": record.state.value,
        "skip_to": offsets_to_json(record.skip_to),
        "quarantine_requested": record.quarantine_requested,
        **progress_to_row(record.progress),
    }


def from_row(row: RowMapping, definition: JobDefinition) -> JobRecord:
    """Convert the `STATUS` of a catalog row to a job."""
    return JobRecord(
        definition=definition,
        desired=DesiredState(row["desired"]),
        state=JobState(row["state"]),
        progress=progress_from_row(row),
        reason=None if row["reason"] is None else StopReason(**row["reason"]),
        skip_to=row["skip_to"],
        quarantine_requested=row["quarantine_requested"],
    )


def definition_to_row(definition: JobDefinition) -> dict[str, Any]:
    """Convert a definition to its columns of the job's row."""
    target = definition.target
    return {
        "id": definition.id,
        "kind": str(definition.kind),
        "database": definition.database,
        "name": definition.name,
        "sql": definition.sql,
        "dialect": definition.dialect,
        "sources": [[source.database, source.name] for source in definition.sources],
        "target_database": None if target is None else target.database,
        "target_table": None if target is None else target.name,
        "owner": definition.owner,
        "created": definition.created,
        "snode": definition.snode,
        "schema": schema_to_json(definition.schema),
        "continuous_query": None if definition.continuous_query is None else dataclasses.asdict(definition.continuous_query),
        "replaces": None if definition.replaces is None else dataclasses.asdict(definition.replaces),
    }


def definition_from_row(row: Mapping[str, Any] | RowMapping) -> JobDefinition:
    """Read the definition from a job's row."""
    target = None if row["target_table"] is None else TableId(row["target_database"], row["target_table"])
    return JobDefinition(
        id=row["id"],
        kind=JobKind(row["kind"]) if row["kind"] in set(JobKind) else row["kind"],
        database=row["database"],
        name=row["name"],
        sql=row["sql"],
        dialect=row["dialect"],
        sources=tuple(TableId(database, name) for database, name in row["sources"]),
        target=target,
        created=row["created"],
        snode=row["snode"],
        schema=schema_from_json(row["schema"]),
        continuous_query=continuous_query_from_json(row["continuous_query"]),
        replaces=None if row["replaces"] is None else Replacement(**row["replaces"]),
        owner=row["owner"],
    )


def progress_to_row(progress: JobProgress) -> dict[str, Any]:
    """Convert progress to its columns of the job's row."""
    return {
        "position": None if progress.position is None else progress.position.to_json(),
        "boundary": offsets_to_json(progress.boundary),
        "counters": dataclasses.asdict(progress.counters),
    } | {name: getattr(progress, name) for name in PLAIN_PROGRESS}


def progress_from_row(row: RowMapping) -> JobProgress:
    """Read the progress from a job's row."""
    return JobProgress(
        position=None if row["position"] is None else Position.from_json(row["position"]),
        boundary=row["boundary"],
        counters=JobCounters(**row["counters"]),
        **{name: row[name] for name in PLAIN_PROGRESS},
    )


def offsets_to_json(offsets: Offsets | None) -> dict[str, int] | None:
    """Return offsets as a JSON object."""
    return None if offsets is None else dict(offsets)


def reason_to_json(reason: StopReason | None) -> dict[str, Any] | None:
    """Return a stop reason as a JSON object."""
    return None if reason is None else dataclasses.asdict(reason)


def continuous_query_from_json(value: dict[str, Any] | None) -> ContinuousQuery | None:
    """Read what a job holds of a continuous query."""
    if value is None:
        return None
    schedule = Schedule(**value["schedule"] | {"policy": TimeoutPolicy(value["schedule"]["policy"])})
    return ContinuousQuery(schedule, value["timezone"], tuple(value["sources"]), tuple(value["targets"]), value["generation"])


def schema_to_json(schema: StreamSchema | None) -> dict[str, Any] | None:
    """Return a stream's schema as a JSON object."""
    if schema is None:
        return None
    return {
        "columns": [column_to_json(column) for column in schema.columns],
        "tags": [column_to_json(tag) for tag in schema.tags],
        "reads": list(schema.reads),
        "fills": list(schema.fills),
        "virtual": None if schema.virtual is None else [schema.virtual.database, schema.virtual.name],
        "references": [reference_to_json(reference) for reference in schema.references],
    }


def schema_from_json(value: dict[str, Any] | None) -> StreamSchema | None:
    """Read a stream's schema from the JSON object of `schema_to_json`."""
    if value is None:
        return None
    columns, tags = (tuple(column_from_json(column) for column in value[part]) for part in ("columns", "tags"))
    virtual = None if value["virtual"] is None else TableId(*value["virtual"])
    references = tuple(map(reference_from_json, value["references"]))
    return StreamSchema(columns, tags, tuple(value["reads"]), tuple(value["fills"]), virtual, references)


def reference_to_json(reference: ColumnReference) -> list[str]:
    """Return a reference of a virtual table as a JSON array."""
    origin = reference.origin
    return [reference.series, reference.column, origin.database, origin.name, reference.origin_series, reference.origin_column]


def reference_from_json(value: Sequence[str]) -> ColumnReference:
    """Read a reference from the JSON array of `reference_to_json`."""
    series, column, database, table, origin_series, origin_column = value
    return ColumnReference(series, column, TableId(database, table), origin_series, origin_column)
