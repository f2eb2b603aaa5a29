"""Where Alembic enters: the transaction is handed in by `headrace.catalog.migrate`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from headrace.catalog.rows.metadata import METADATA, VERSION_TABLE


def run(connection: Connection) -> None:
    """Apply the pending migrations in one transaction."""
    context.configure(connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
