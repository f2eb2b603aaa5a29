"""Databases, tables, subtables, jobs, quarantine, metrics, leases, snodes, chunks of backfills, executions, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables of the catalog."""
    create_databases()
    create_tables()
    create_subtables()
    create_expirations()
    create_column_references()
    create_trees()
    create_jobs()
    create_quarantine()
    create_stream_metrics()
    create_chunks()
    create_executions()
    create_leases_and_snodes()
    create_events()


def create_databases() -> None:
    """Create `databases`."""
    op.create_table(
        "databases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("precision", sa.String(), nullable=False),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_databases"),
    )


def create_tables() -> None:
    """Create `tables`: supertables and plain tables."""
    op.create_table(
        "tables",
        sa.Column("database", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("virtual", sa.Boolean(), nullable=False),
        sa.Column("comment", sa.String(), nullable=True),
        sa.Column("subtable_drops", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "name", name="pk_tables"),
        sa.ForeignKeyConstraint(["database"], ["databases.name"], name="fk_tables_database", ondelete="CASCADE"),
    )


def create_subtables() -> None:
    """Create `subtables`, whose names are unique within a database."""
    table = ["tables.database", "tables.name"]
    op.create_table(
        "subtables",
        sa.Column("database", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("table", NAME, nullable=False),
        sa.PrimaryKeyConstraint("database", "name", name="pk_subtables"),
        sa.ForeignKeyConstraint(["database", "table"], table, name="fk_subtables_database_table", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_subtables_database_table", "subtables", ["database", "table"])


def create_expirations() -> None:
    """Create `expirations`: when subtables and plain tables with a TTL are dropped."""
    op.create_table(
        "expirations",
        sa.Column("database", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("database", "name", name="pk_expirations"),
        sa.ForeignKeyConstraint(
            ["database", "name"],
            ["subtables.database", "subtables.name"],
            name="fk_expirations_database_name",
            ondelete="CASCADE",
        ),
    )


def create_column_references() -> None:
    """Create `column_references`: the stored columns that fill the columns of virtual tables."""
    origin = ["origin_database", "origin_table"]
    op.create_table(
        "column_references",
        sa.Column("database", NAME, nullable=False),
        sa.Column("series", NAME, nullable=False),
        sa.Column("column", NAME, nullable=False),
        sa.Column("origin_database", NAME, nullable=False),
        sa.Column("origin_table", NAME, nullable=False),
        sa.Column("origin_series", NAME, nullable=False),
        sa.Column("origin_column", NAME, nullable=False),
        sa.PrimaryKeyConstraint("database", "series", "column", name="pk_column_references"),
        sa.ForeignKeyConstraint(
            ["database", "series"],
            ["subtables.database", "subtables.name"],
            name="fk_column_references_database_series",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_column_references_origin_database_origin_table", "column_references", origin)


def create_trees() -> None:
    """Create the tables of the IoTDB language: device schemas, devices, times to live, device templates and functions."""
    op.create_table(
        "device_schemas",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("series", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_device_schemas"),
    )
    op.create_table(
        "devices",
        sa.Column("database", NAME, nullable=False),
        sa.Column("path", NAME, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("aligned", sa.Boolean(), nullable=False),
        sa.Column("schema_id", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=True),
        sa.Column("template", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("database", "path", name="pk_devices"),
        sa.ForeignKeyConstraint(["database"], ["databases.name"], name="fk_devices_database", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["schema_id"], ["device_schemas.id"], name="fk_devices_schema_id"),
    )
    op.create_table(
        "ttls",
        sa.Column("path", NAME, nullable=False),
        sa.Column("ttl_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("path", name="pk_ttls"),
    )
    op.create_table(
        "device_templates",
        sa.Column("name", NAME, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("aligned", sa.Boolean(), nullable=False),
        sa.Column("series", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_device_templates"),
    )
    op.create_table(
        "template_paths",
        sa.Column("path", NAME, nullable=False),
        sa.Column("database", NAME, nullable=False),
        sa.Column("template", NAME, nullable=False),
        sa.PrimaryKeyConstraint("path", name="pk_template_paths"),
        sa.ForeignKeyConstraint(["database"], ["databases.name"], name="fk_template_paths_database", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["template"], ["device_templates.name"], name="fk_template_paths_template"),
    )
    op.create_table(
        "functions",
        sa.Column("name", NAME, nullable=False),
        sa.Column("class_name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_functions"),
    )


def create_jobs() -> None:
    """Create `jobs`: definitions, states and progress."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("database", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("sql", sa.Text(), nullable=False),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("target_database", sa.String()),
        sa.Column("target_table", sa.String()),
        sa.Column("schema", sa.JSON()),
        sa.Column("continuous_query", sa.JSON()),
        sa.Column("replaces", sa.JSON()),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("snode", NAME, nullable=False),
        sa.Column("desired", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.JSON()),
        sa.Column("position", sa.JSON()),
        sa.Column("boundary", sa.JSON()),
        sa.Column("skip_to", sa.JSON()),
        sa.Column("quarantine_requested", sa.BigInteger()),
        sa.Column("watermark", sa.BigInteger()),
        sa.Column("updated", sa.BigInteger()),
        sa.Column("pending_since", sa.BigInteger()),
        sa.Column("counters", sa.JSON(), nullable=False),
        sa.Column("pruned", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("database", "kind", "name", name="uq_jobs_database_kind_name"),
        sa.UniqueConstraint("target_database", "target_table", name="uq_jobs_target_database_target_table"),
    )
    op.create_index("ix_jobs_snode", "jobs", ["snode"])


def create_quarantine() -> None:
    """Create `stream_quarantine`: rows that streams have set aside."""
    op.create_table(
        "stream_quarantine",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("series", NAME, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("released", sa.BigInteger()),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("requested", sa.String()),
        sa.Column("dropped", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job_id", "series", "time", "key", "batch", name="pk_stream_quarantine"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_stream_quarantine_job_id", ondelete="CASCADE"),
    )


def create_stream_metrics() -> None:
    """Create `stream_metrics`: measurements of streams at regular intervals."""
    means = ("batch_ms", "read_ms", "compute_ms", "checkpoint_ms", "write_ms", "record_ms")
    sizes = ("state_windows", "state_bytes", "quarantined")
    op.create_table(
        "stream_metrics",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("rows_behind", "lag_ms")),
        sa.Column("event_lag_ms", sa.BigInteger()),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Float()) for name in means),
        *(sa.Column(name, sa.Float(), nullable=False) for name in ("rows_in_s", "rows_out_s")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in sizes),
        sa.PrimaryKeyConstraint("job_id", "time", name="pk_stream_metrics"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_stream_metrics_job_id", ondelete="CASCADE"),
    )
    op.create_index("ix_stream_metrics_time", "stream_metrics", ["time"])


def create_chunks() -> None:
    """Create `chunks`, the ledger of backfills."""
    op.create_table(
        "chunks",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("run", NAME, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("first_series", sa.Text()),
        sa.Column("end_series", sa.Text()),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("message", sa.Text()),
        sa.Column("holder", sa.String()),
        sa.Column("claimed", sa.BigInteger()),
        sa.Column("finished", sa.BigInteger()),
        sa.Column("rows_done", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job_id", "run", "number", name="pk_chunks"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_chunks_job_id", ondelete="CASCADE"),
    )


def create_executions() -> None:
    """Create `executions`, the ledger of continuous queries, and `dropped_queries`."""
    op.create_table(
        "dropped_queries",
        sa.Column("name", NAME, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_dropped_queries"),
    )
    op.create_table(
        "executions",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("scheduled", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("rows", sa.BigInteger()),
        sa.Column("started", sa.BigInteger()),
        sa.Column("finished", sa.BigInteger()),
        sa.Column("message", sa.Text()),
        sa.PrimaryKeyConstraint("job_id", "scheduled", name="pk_executions"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_executions_job_id", ondelete="CASCADE"),
    )
    unfinished = sa.text("state != 'DONE'")
    op.create_index(
        "ix_executions_unfinished", "executions", ["job_id", "scheduled"], sqlite_where=unfinished, postgresql_where=unfinished
    )


def create_leases_and_snodes() -> None:
    """Create `leases`, `members`, the snodes that share jobs, and `snodes`, the last heartbeats."""
    op.create_table(
        "leases",
        sa.Column("snode", NAME, nullable=False),
        sa.Column("holder", sa.String()),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.String()),
        sa.PrimaryKeyConstraint("snode", name="pk_leases"),
    )
    op.create_table(
        "members",
        sa.Column("name", NAME, nullable=False),
        sa.Column("dnode", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_members"),
        sa.UniqueConstraint("dnode", name="uq_members_dnode"),
    )
    op.create_table(
        "snodes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.String()),
        sa.Column("token", sa.String()),
        sa.Column("heartbeat", sa.BigInteger(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_snodes"),
    )


def create_events() -> None:
    """Create `events`."""
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("subject_kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_subject_kind_subject", "events", ["subject_kind", "subject"])
