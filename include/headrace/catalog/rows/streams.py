"""Streams: definition, desired and observed state, progress."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Named,
    RowMapping,
    String,
    Table,
    Text,
    TypedColumns,
    UniqueConstraint,
)

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.streams import (
    DesiredState,
    StopReason,
    StreamCounters,
    StreamDefinition,
    StreamProgress,
    StreamRecord,
    StreamState,
)


class StreamColumns(TypedColumns):
    id: Named[str] = Column(String, primary_key=True)
    database: Named[str] = Column(NAME)
    name: Named[str] = Column(NAME)
    sql: Named[str] = Column(Text)
    dialect: Named[str]
    source_database: Named[str]
    source_table: Named[str]
    target_database: Named[str]
    target_table: Named[str]
    created: Named[int] = Column(BigInteger)
    snode: Named[str] = Column(NAME, index=True)
    desired: Named[str]
    state: Named[str]
    reason: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    source_version: Named[int | None] = Column(BigInteger, nullable=True)
    boundary: Named[int | None] = Column(BigInteger, nullable=True)
    frontier: Named[int | None] = Column(BigInteger, nullable=True)
    updated: Named[int | None] = Column(BigInteger, nullable=True)
    lag_ms: Named[int | None] = Column(BigInteger, nullable=True)
    counters: Named[dict[str, int]] = Column(JSON)


STREAMS = Table(
    "streams",
    METADATA,
    StreamColumns,
    UniqueConstraint("database", "name"),
    ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"),
)

DEFINITION_FIELDS = tuple(field.name for field in dataclasses.fields(StreamDefinition))
POSITION_FIELDS = tuple(field.name for field in dataclasses.fields(StreamProgress) if field.name != "counters")


def to_row(record: StreamRecord) -> dict[str, Any]:
    definition = {name: getattr(record.definition, name) for name in DEFINITION_FIELDS}
    return {
        **definition,
        "desired": record.desired.value,
        "reason": reason_to_json(record.reason),
        "state": record.state.value,
        **progress_to_row(record.progress),
    }


def from_row(row: RowMapping) -> StreamRecord:
    return StreamRecord(
        definition=StreamDefinition(**{name: row[name] for name in DEFINITION_FIELDS}),
        desired=DesiredState(row["desired"]),
        state=StreamState(row["state"]),
        progress=progress_from_row(row),
        reason=None if row["reason"] is None else StopReason(**row["reason"]),
    )


def progress_to_row(progress: StreamProgress) -> dict[str, Any]:
    return {name: getattr(progress, name) for name in POSITION_FIELDS} | {"counters": dataclasses.asdict(progress.counters)}


def progress_from_row(row: RowMapping) -> StreamProgress:
    return StreamProgress(counters=StreamCounters(**row["counters"]), **{name: row[name] for name in POSITION_FIELDS})


def reason_to_json(reason: StopReason | None) -> dict[str, Any] | None:
    return None if reason is None else dataclasses.asdict(reason)
