"""Chunks of backfills: plan and outcome."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Integer, Named, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


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
