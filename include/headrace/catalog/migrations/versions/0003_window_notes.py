"""Keep what late and changed rows did to windows of streams, and the totals of rows in samples."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TOTALS = (
    *("rows_used", "rows_updated", "rows_filtered", "rows_expired", "rows_quarantined", "rows_dropped", "rows_out"),
    "windows_recalculated",
)


def upgrade() -> None:
    """Create the table, and the columns, which are NULL in samples that exist."""
    op.create_table(
        "window_notes",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("series", sa.String().with_variant(sa.String(collation="C"), "postgresql"), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("recalculated", sa.BigInteger(), nullable=False),
        sa.Column("late_rows", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_window_notes_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "series", "start", name="pk_window_notes"),
    )
    for name in TOTALS:
        op.add_column("stream_metrics", sa.Column(name, sa.BigInteger(), nullable=True))
