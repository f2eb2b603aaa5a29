"""Triggers, what has been counted of their calls, and what stateful ones have stored."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ForeignKeyConstraint, Named, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class TriggerColumns(TypedColumns):
    """Columns of `triggers`, which belong to no database."""

    name: Named[str] = Column(NAME, primary_key=True)
    id: Named[str] = Column(String, unique=True)
    event: Named[str]
    type: Named[str]
    pattern: Named[str]
    class_name: Named[str]
    artifact: Named[dict[str, Any]] = Column(JSON)
    attributes: Named[dict[str, str]] = Column(JSON)
    owner: Named[str] = Column(NAME)
    created: Named[int] = Column(BigInteger)
    state: Named[str]
    failure_strategy: Named[str | None] = Column(String, nullable=True)
    node: Named[str]
    reason: Named[str] = Column(Text)


TRIGGERS = Table("triggers", METADATA, TriggerColumns)


class TriggerActivityColumns(TypedColumns):
    """Columns of `trigger_activity`: one row for each trigger."""

    trigger_id: Named[str] = Column(String, primary_key=True)
    calls: Named[int] = Column(BigInteger)
    failures: Named[int] = Column(BigInteger)
    failures_in_row: Named[int] = Column(BigInteger)
    duration_us: Named[int] = Column(BigInteger)
    last_error: Named[str] = Column(Text)
    last_error_at: Named[int | None] = Column(BigInteger, nullable=True)


TRIGGER_ACTIVITY = Table(
    "trigger_activity",
    METADATA,
    TriggerActivityColumns,
    ForeignKeyConstraint(["trigger_id"], ["triggers.id"], ondelete="CASCADE"),
)


class TriggerEntryColumns(TypedColumns):
    """Columns of `trigger_entries`: the stores of stateful triggers. Values are JSON texts."""

    trigger_id: Named[str] = Column(String, primary_key=True)
    key: Named[str] = Column(String, primary_key=True)
    value: Named[str] = Column(Text)


TRIGGER_ENTRIES = Table(
    "trigger_entries",
    METADATA,
    TriggerEntryColumns,
    ForeignKeyConstraint(["trigger_id"], ["triggers.id"], ondelete="CASCADE"),
)
