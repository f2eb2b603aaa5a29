"""Measurements of streams, one row for each stream and sample."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKeyConstraint, Index, Named, String, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA


class StreamMetricColumns(TypedColumns):
    """Columns of `stream_metrics`."""

    job_id: Named[str] = Column(String, primary_key=True)
    time: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    rows_behind: Named[int] = Column(BigInteger)
    lag_ms: Named[int] = Column(BigInteger)
    event_lag_ms: Named[int | None] = Column(BigInteger, nullable=True)
    batches: Named[int] = Column(BigInteger)
    batch_ms: Named[float | None] = Column(Float, nullable=True)
    read_ms: Named[float | None] = Column(Float, nullable=True)
    compute_ms: Named[float | None] = Column(Float, nullable=True)
    checkpoint_ms: Named[float | None] = Column(Float, nullable=True)
    write_ms: Named[float | None] = Column(Float, nullable=True)
    record_ms: Named[float | None] = Column(Float, nullable=True)
    rows_in_s: Named[float] = Column(Float)
    rows_out_s: Named[float] = Column(Float)
    state_windows: Named[int] = Column(BigInteger)
    state_bytes: Named[int] = Column(BigInteger)
    quarantined: Named[int] = Column(BigInteger)


STREAM_METRICS = Table(
    "stream_metrics",
    METADATA,
    StreamMetricColumns,
    ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
    Index(None, "time"),
)
