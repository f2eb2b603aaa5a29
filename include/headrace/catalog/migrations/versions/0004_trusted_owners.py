"""Keep the names that own jobs with all rights, as no one had to say who they are. Other names that are no users may do nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

OWNED = ("jobs", "triggers", "functions", "pipe_plugins")


def upgrade() -> None:
    """Create the table, with the owners that are, and were, no users: they have had all rights."""
    name = sa.String().with_variant(sa.String(collation="C"), "postgresql")
    op.create_table(
        "trusted_owners", sa.Column("name", name, nullable=False), sa.PrimaryKeyConstraint("name", name="pk_trusted_owners")
    )
    owners = " UNION ".join(f"SELECT owner FROM {table}" for table in OWNED)
    op.execute(
        f"INSERT INTO trusted_owners (name) SELECT owner FROM ({owners}) AS owners WHERE owner NOT IN ('', 'root')"
        " AND owner NOT LIKE '% token %' AND owner NOT IN (SELECT name FROM users)"
        " AND owner NOT IN (SELECT name FROM dropped_users)"
    )
