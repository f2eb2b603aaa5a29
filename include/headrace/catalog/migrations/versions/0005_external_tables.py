"""Keep where and how external tables are read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column, NULL for all tables that exist."""
    op.add_column("tables", sa.Column("external", sa.JSON(), nullable=True))
