"""Chunks of backfills: plan and outcome."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Integer, Named, RowMapping, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.ledger import Chunk, ChunkState


class ChunkColumns(TypedColumns):
    """Columns of `chunks`."""

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


CHUNKS = Table("chunks", METADATA, ChunkColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"))


def to_row(chunk: Chunk) -> dict[str, Any]:
    """Convert a chunk to its catalog row."""
    return {
        "job_id": chunk.job_id,
        "run": chunk.run,
        "number": chunk.number,
        "start": chunk.start,
        "end": chunk.end,
        "first_series": chunk.first_series,
        "end_series": chunk.end_series,
        "rows": chunk.rows,
        "state": chunk.state.value,
        "message": chunk.message,
    }


def from_row(row: RowMapping) -> Chunk:
    """Convert a catalog row to a chunk."""
    return Chunk(
        row["job_id"],
        row["run"],
        row["number"],
        row["start"],
        row["end"],
        row["rows"],
        ChunkState(row["state"]),
        row["message"],
        row["first_series"],
        row["end_series"],
    )
