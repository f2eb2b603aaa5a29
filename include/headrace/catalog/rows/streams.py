"""What streams have set aside, and their measurements, one row for each stream and sample.

A row that was released stays in the quarantine for as long as its stream may restart before that.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from typing import Any, Final, get_args, get_type_hints

from sqlalchemy import BigInteger, Column, Float, ForeignKeyConstraint, Index, Named, RowMapping, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import conversion
from headrace.model.quarantine import QuarantinedRow, RowKey
from headrace.model.stream_metrics import StreamSample

COLUMN_TYPES: Final = {int: BigInteger, float: Float, str: String}


class _QuarantineColumns(TypedColumns):
    job_id: Named[str] = Column(String, primary_key=True)
    series: Named[str] = Column(NAME, primary_key=True)
    time: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    key: Named[str] = Column(NAME, primary_key=True)
    batch: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    version: Named[int] = Column(BigInteger)
    released: Named[int | None] = Column(BigInteger, nullable=True)
    code: Named[str]
    message: Named[str] = Column(Text)
    content: Named[str] = Column(Text)
    since: Named[int] = Column(BigInteger)
    requested: Named[str | None] = Column(String, nullable=True)
    dropped: Named[int | None] = Column(BigInteger, nullable=True)


QUARANTINE = Table(
    "stream_quarantine", METADATA, _QuarantineColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE")
)


def key_to_row(key: RowKey) -> dict[str, Any]:
    return {"series": key.series, "time": key.time, "key": json.dumps(key.key)}


def to_row(job_id: str, row: QuarantinedRow) -> dict[str, Any]:
    message, content = row.message.replace("\0", "�"), json.dumps(row.values)
    fields = conversion.to_row(row, "key", "values", "released")
    return {"job_id": job_id, **key_to_row(row.key), **fields, "message": message, "content": content, "released": None}


def from_row(row: RowMapping) -> QuarantinedRow:
    key = RowKey(row["series"], row["time"], json.loads(row["key"]))
    return conversion.from_row(QuarantinedRow, {**row, "key": key, "values": json.loads(row["content"])})


def columns_of(kind: type, keys: Container[str]) -> Iterator[Column[Any]]:
    """Yield a column for each field of a dataclass of numbers and texts."""
    for name, declared in get_type_hints(kind).items():
        type_, *none = get_args(declared) or (declared,)
        yield Column(name, COLUMN_TYPES[type_], primary_key=name in keys, nullable=bool(none), autoincrement=False)


STREAM_METRICS = Table(
    "stream_metrics",
    METADATA,
    *columns_of(StreamSample, ("job_id", "time")),
    ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
    Index(None, "time"),
)


class _WindowNoteColumns(TypedColumns):
    job_id: Named[str] = Column(String, primary_key=True)
    series: Named[str] = Column(NAME, primary_key=True)
    start: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    end: Named[int] = Column(BigInteger)
    recalculated: Named[int] = Column(BigInteger)
    late_rows: Named[int] = Column(BigInteger)
    time: Named[int] = Column(BigInteger)


WINDOW_NOTES = Table(
    "window_notes", METADATA, _WindowNoteColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE")
)
