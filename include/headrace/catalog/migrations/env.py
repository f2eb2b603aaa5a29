"""Where Alembic enters: the transaction is handed in by `headrace.catalog.migrate`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, text

from headrace.catalog.rows.metadata import METADATA, SCHEMA, VERSION_TABLE


def run(connection: Connection) -> None:
    """Apply the pending migrations in one transaction."""
    if connection.dialect.name == "postgresql":
        _create_schema(connection)
    context.configure(connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


def _create_schema(connection: Connection) -> None:
    """Creates the schema unless it is there: even IF NOT EXISTS asks for the right to create one."""
    if connection.scalar(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))


run(context.config.attributes["connection"])
