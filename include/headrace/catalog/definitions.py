"""Definitions of jobs, kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, RowMapping, select

from headrace.catalog.rows.jobs import DEFINITION, JOBS, definition_from_row
from headrace.catalog.store import is_among
from headrace.model.conversion import to_json
from headrace.model.jobs import JobDefinition

MAX_DEFINITIONS: Final = 10_000
"""When there are more, only those that were read last are kept."""


class Definitions:
    """Definitions by job, which are read once: drivers ask for all jobs every second. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, JobDefinition] = {}

    def has(self, id: str) -> bool:
        """Return whether there is a definition of a job, perhaps an outdated one."""
        return id in self._kept

    def has_some(self) -> bool:
        return bool(self._kept)

    def of(self, connection: Connection, rows: Sequence[RowMapping]) -> dict[str, JobDefinition]:
        """Return the definitions of some rows by id, without those of jobs that have just been dropped.

        The rows have the columns `STATUS`, or all. With the former, definitions that are not kept are read.
        """
        kept = self._kept
        definitions = {row["id"]: kept[row["id"]] for row in rows if row["id"] in kept and is_current(kept[row["id"]], row)}
        missing = [row for row in rows if row["id"] not in definitions]
        if missing:
            new = {row["id"]: definition_from_row(row) for row in with_definitions(connection, missing)}
            definitions |= new
            self._kept = (kept if len(kept) + len(new) <= MAX_DEFINITIONS else {}) | new
        return definitions


def with_definitions(connection: Connection, rows: Sequence[RowMapping]) -> Sequence[RowMapping]:
    if all(column.name in rows[0] for column in DEFINITION):
        return rows
    query = select(*DEFINITION).where(is_among(connection, JOBS.c.id, [row["id"] for row in rows]))
    return connection.execute(query).mappings().all()


def is_current(definition: JobDefinition, row: RowMapping) -> bool:
    """Return whether a definition is that of a row: only its statement, its snode and the stages of a pipe can change."""
    is_same = (definition.sql, definition.snode, definition.created) == (row["sql"], row["snode"], row["created"])
    # A password may have changed, which the statement does not show.
    return is_same and to_json(definition.pipe) == row["pipe"]
