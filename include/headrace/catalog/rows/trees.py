"""Trees of devices: devices, their schemas, templates, and times to live.

Devices of the same series share one row of `device_schemas`, whose id is a hash of its contents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Named,
    RowMapping,
    String,
    Table,
    Text,
    TypedColumns,
)

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import conversion
from headrace.model.trees import Device, SeriesLabels, Timeseries


class SchemaColumns(TypedColumns):
    """Columns of `device_schemas`: lists of series that many devices share."""

    id: Named[str] = Column(String, primary_key=True)
    series: Named[list[dict[str, Any]]] = Column(JSON)


DEVICE_SCHEMAS = Table("device_schemas", METADATA, SchemaColumns)


class DeviceColumns(TypedColumns):
    """Columns of `devices`: one row for each device of a tree."""

    database: Named[str] = Column(NAME, primary_key=True)
    path: Named[str] = Column(NAME, primary_key=True)
    number: Named[int] = Column(BigInteger)
    aligned: Named[bool] = Column(Boolean)
    schema_id: Named[str]
    labels: Named[dict[str, Any]] = Column(JSON)
    template: Named[str | None] = Column(String, nullable=True)


DEVICES = Table(
    "devices",
    METADATA,
    DeviceColumns,
    ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"),
    ForeignKeyConstraint(["schema_id"], ["device_schemas.id"]),
    Index(None, "database", "number"),
)


class TtlColumns(TypedColumns):
    """Columns of `ttls`: times to live by path or pattern."""

    path: Named[str] = Column(NAME, primary_key=True)
    ttl_ms: Named[int] = Column(BigInteger)


TTLS = Table("ttls", METADATA, TtlColumns)


class TemplateColumns(TypedColumns):
    """Columns of `device_templates`, which belong to no database."""

    name: Named[str] = Column(NAME, primary_key=True)
    number: Named[int] = Column(BigInteger)
    aligned: Named[bool] = Column(Boolean)
    series: Named[list[dict[str, Any]]] = Column(JSON)


DEVICE_TEMPLATES = Table("device_templates", METADATA, TemplateColumns)


class TemplatePathColumns(TypedColumns):
    """Columns of `template_paths`: the paths that a device template is set to."""

    path: Named[str] = Column(NAME, primary_key=True)
    database: Named[str] = Column(NAME)
    template: Named[str] = Column(NAME)


TEMPLATE_PATHS = Table(
    "template_paths",
    METADATA,
    TemplatePathColumns,
    ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"),
    ForeignKeyConstraint(["template"], ["device_templates.name"]),
)


def schema_id(series: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.blake2b(json.dumps(series).encode(), digest_size=16).hexdigest()


def to_row(device: Device, schema: str) -> dict[str, Any]:
    return conversion.to_row(device, "series") | {"schema_id": schema}


def from_row(row: RowMapping, series: tuple[Timeseries, ...]) -> Device:
    """Return the device that a row and its decoded series describe. Devices share these, since there may be millions."""
    labels = conversion.from_json(dict[str, SeriesLabels], row["labels"])
    return Device(row["database"], row["path"], series, row["aligned"], row["number"], labels, row["template"])


class SchemaStatementColumns(TypedColumns):
    """Columns of `schema_statements`. A database may have been dropped since, so there is no foreign key."""

    id: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    time: Named[int] = Column(BigInteger)
    category: Named[str] = Column(String)
    sql: Named[str] = Column(Text)
    database: Named[str] = Column(NAME)
    version: Named[int] = Column(BigInteger)
    owner: Named[str] = Column(NAME)


SCHEMA_STATEMENTS = Table("schema_statements", METADATA, SchemaStatementColumns)
