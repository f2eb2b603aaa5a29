"""Keep the versions of a job's definition. The statements of jobs that exist are their first versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table, with a version of each job."""
    op.create_table(
        "job_versions",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("user_name", sa.String().with_variant(sa.String(collation="C"), "postgresql"), nullable=False),
        sa.Column("sql", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_versions_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_job_versions"),
    )
    op.execute("INSERT INTO job_versions (job_id, number, time, user_name, sql) SELECT id, 1, created, owner, sql FROM jobs")
