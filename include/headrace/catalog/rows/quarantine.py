"""Rows that streams have set aside. A row that was released stays for as long as its stream may restart before that."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Named,
    RowMapping,
    String,
    Table,
    Text,
    TypedColumns,
)

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import conversion
from headrace.model.quarantine import QuarantinedRow, RowKey


class QuarantineColumns(TypedColumns):
    """Columns of `stream_quarantine`."""

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
    "stream_quarantine", METADATA, QuarantineColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE")
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
