"""Trees of devices: devices, their schemas, templates, and times to live.

Devices of the same series share one row of `device_schemas`, whose id is a hash of its contents.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKeyConstraint, Named, RowMapping, String, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.trees import Device, DeviceTemplate, SeriesLabels, TemplateSeries, Timeseries
from headrace.model.types import DataType, TypeKind


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
    labels: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    template: Named[str | None] = Column(String, nullable=True)


DEVICES = Table(
    "devices",
    METADATA,
    DeviceColumns,
    ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"),
    ForeignKeyConstraint(["schema_id"], ["device_schemas.id"]),
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


def series_to_json(series: Sequence[Timeseries]) -> list[dict[str, Any]]:
    """Return series as JSON, without defaults."""
    return [
        {"measurement": one.measurement, "kind": one.type.kind.value, "column": one.column}
        | ({"encoding": one.encoding} if one.encoding else {})
        | ({"compression": one.compression} if one.compression else {})
        for one in series
    ]


def series_from_json(values: Sequence[Mapping[str, Any]]) -> tuple[Timeseries, ...]:
    """Decode the series of a device schema."""
    return tuple(
        Timeseries(
            value["measurement"],
            DataType(TypeKind(value["kind"])),
            value["column"],
            value.get("encoding", ""),
            value.get("compression", ""),
        )
        for value in values
    )


def schema_id(series: Sequence[Mapping[str, Any]]) -> str:
    """Return the id of a schema, the same for equal schemas."""
    return hashlib.blake2b(json.dumps(series).encode(), digest_size=16).hexdigest()


def to_row(device: Device, schema: str) -> dict[str, Any]:
    """Return the row of a device whose series are stored under the ID `schema`."""
    labels = {name: dataclasses.asdict(one) for name, one in device.labels.items()}
    return {
        "database": device.database,
        "path": device.path,
        "number": device.number,
        "aligned": device.aligned,
        "schema_id": schema,
        "labels": labels or None,
        "template": device.template,
    }


def from_row(row: RowMapping, series: tuple[Timeseries, ...]) -> Device:
    """Return the device that a row and its decoded series describe."""
    labels = {name: SeriesLabels(**value) for name, value in (row["labels"] or {}).items()}
    return Device(row["database"], row["path"], series, row["aligned"], row["number"], labels, row["template"])


def template_to_row(template: DeviceTemplate) -> dict[str, Any]:
    """Return the row of a device template, without its number."""
    return {"name": template.name, "aligned": template.aligned, "series": template_series_to_json(template.series)}


def template_series_to_json(series: Sequence[TemplateSeries]) -> list[dict[str, Any]]:
    """Return the measurements of a template as JSON."""
    return [
        {"measurement": one.measurement, "kind": one.type.kind.value, "encoding": one.encoding, "compression": one.compression}
        for one in series
    ]


def template_from_row(row: RowMapping) -> DeviceTemplate:
    """Return the device template that a row describes."""
    series = tuple(
        TemplateSeries(value["measurement"], DataType(TypeKind(value["kind"])), value["encoding"], value["compression"])
        for value in row["series"]
    )
    return DeviceTemplate(row["name"], series, row["aligned"])
