"""The pipes of a soak: from tables to Delta tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable

import headrace
from headrace.model.jobs import JobRecord, JobState
from headrace.model.pipes import NEXT_CHUNK
from headrace.model.positions import source_id
from headrace.pipes.kind import PIPE
from headrace.settings import Settings

START_MS: Final = 1_700_000_060_000
"""Rows before this time are not archived."""
PIPES: Final = {
    "archive": "WITH SOURCE ('source'='table-source', 'database'='soak', 'table'='readings', 'inclusion'='data', "
    f"'start-time'='{START_MS}') WITH SINK ('sink'='delta-sink', 'uri'='{{folder}}/archive')",
    "copy": "WITH SOURCE ('source'='table-source', 'database'='soak', 'table'='ordered') "
    "WITH SINK ('sink'='delta-sink', 'uri'='{folder}/copy', 'partition-by-day'='false')",
}
"""The pipes, with the folder for their tables to be filled in."""
SOURCES: Final = {"archive": ("soak", "readings"), "copy": ("soak", "ordered")}
"""Database and table that each pipe reads."""
Rows = set[tuple[Any, ...]]


def create_pipe_sql(name: str, settings: Settings) -> str:
    """Return the statement that creates one of the pipes."""
    return f"CREATE PIPE {name} {PIPES[name].format(folder=settings.home.parent)}"


def has_delivered(connection: headrace.Connection, record: JobRecord) -> bool:
    """Return True if a pipe runs and has delivered everything."""
    context, offsets = connection.session.context, record.offsets or {}
    database, name = SOURCES[record.definition.name]
    version = context.tables.version(context.catalog.tables.get(database, name))
    is_done = NEXT_CHUNK not in offsets and offsets.get(source_id(database, name)) == version
    return record.state is JobState.RUNNING and is_done


def compare_pipes(connection: headrace.Connection, settings: Settings, names: Iterable[str] = PIPES) -> dict[str, str]:
    """Return for each pipe whether its target equals what a query with its parameters returns."""
    conditions = {"archive": f" WHERE ts >= {START_MS}", "copy": ""}
    expected = {name: query(connection, SOURCES[name][1], conditions[name]) for name in names}
    return {name: difference(rows, stored(settings.home.parent / name)) for name, rows in expected.items()}


def difference(expected: Rows, received: Rows) -> str:
    """Return `equal`, or how the rows differ."""
    if expected == received:
        return f"equal, {len(expected)} rows"
    missing, more = expected - received, received - expected
    return f"differs: {len(missing)} rows are missing, such as {sorted(missing)[:3]}; {len(more)} more, such as {sorted(more)[:3]}"


def query(connection: headrace.Connection, table: str, where: str = "") -> Rows:
    """Return what a query finds, as devices see it."""
    rows = connection.execute(f"SELECT tbname, CAST(ts AS BIGINT), a, b FROM soak.{table}{where}").fetchall()
    return {(f"root.soak.{table}.{name}", ms, a, b) for name, ms, a, b in rows}


def stored(uri: Path) -> Rows:
    """Return what a Delta table has."""
    rows = DeltaTable(str(uri)).to_pyarrow_table(columns=["device", "time", "a", "b"]).to_pylist()
    return {(row["device"], round(row["time"].timestamp() * 1000), row["a"], row["b"]) for row in rows}


def is_pipe(record: JobRecord) -> bool:
    """Return whether a job is one of the pipes."""
    return record.definition.kind == PIPE
