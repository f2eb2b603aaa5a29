"""The log of statements that change the schema of trees: each is recorded in the transaction of its change.

So there is never a change without its statement, nor a statement of a change that was not made. Ids are those of a counter, whose
row stays locked until the transaction ends: they become visible in their order, and have no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, and_, delete, func, insert, or_, select

from headrace.catalog.revisions import NO_REVISION, RevisionKind, count_up, revision_of
from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.trees import SCHEMA_STATEMENTS
from headrace.catalog.store import Repository, Store
from headrace.errors import HistoryGoneError
from headrace.model.conversion import to_row
from headrace.model.failpoints import failpoint
from headrace.model.positions import STATEMENTS
from headrace.model.schema_log import LoggedStatement, SchemaStatement

KEPT_MS: Final = 7 * 24 * 3_600_000
"""Statements that no pipe needs are kept this long."""
MAX_STATEMENTS: Final = 1_000_000
"""A pipe that is stopped holds back the removal of statements only up to this number."""
PRUNE_INTERVAL: Final = 1_000
"""Old statements are removed once for as many new ones."""
NEWEST: Final = revision_of(RevisionKind.STATEMENTS)
LAST_TIME: Final = select(SCHEMA_STATEMENTS.c.time).order_by(SCHEMA_STATEMENTS.c.id.desc()).limit(1)
NEEDED: Final = select(func.min(JOBS.c.position[("offsets", STATEMENTS)].as_integer()))


class SchemaLog(Repository):
    """Statements that change the schema of trees, or rights, in the order of the changes."""

    def newest(self) -> int:
        """Return the id of the newest statement; 0 if there never was one. Reads one row."""
        return self._scalar(NEWEST) or NO_REVISION

    def after(self, id: int, limit: int) -> list[LoggedStatement]:
        """Return the first statements after one, by id.

        Raises:
            HistoryGoneError: Some of them have been removed.
        """
        # On PostgreSQL each query has a snapshot of its own. Read the counter first: the statements are then as new, or newer.
        newest = self.newest()
        if newest <= id:
            return []
        query = select(SCHEMA_STATEMENTS).where(SCHEMA_STATEMENTS.c.id > id).order_by(SCHEMA_STATEMENTS.c.id).limit(limit)
        statements = self._all(LoggedStatement, query)
        if not statements or statements[0].id != id + 1:
            raise HistoryGoneError(
                f"statements {id + 1} and following have been removed from the log of schema changes",
                hint="drop the pipe and create it again, with its history: it then begins with the present schema",
            )
        return statements

    def record(self, statements: Sequence[SchemaStatement]) -> None:
        """Record statements whose change is not one of the catalog's."""
        with self._store.write() as connection:
            record_statements(self._store, connection, statements)


def record_statements(store: Store, connection: Connection, statements: Sequence[SchemaStatement], *, after: bool = False) -> int:
    """Record statements in the transaction of their change, as its last part, and return their time; 0 if there are none.

    The transaction holds the counter's row until it ends, so it should not wait for anything else after that. `after`
    makes the time greater than that of all earlier statements.
    """
    if not statements:
        return 0
    now = store.now(connection)
    failpoint("catalog.statements")
    newest = count_up(connection, RevisionKind.STATEMENTS, len(statements))
    last = connection.scalar(LAST_TIME)
    time = now if last is None else max(now, last + int(after))
    first = newest - len(statements) + 1
    rows = [to_row(statement) | {"id": id, "time": time} for id, statement in enumerate(statements, first)]
    connection.execute(insert(SCHEMA_STATEMENTS), rows)
    if newest // PRUNE_INTERVAL > (first - 1) // PRUNE_INTERVAL:
        prune(connection, newest, now)
    return time


def prune(connection: Connection, newest: int, now: int) -> None:
    """Remove statements that are old and that all pipes have handled, and those beyond the limit."""
    needed = connection.scalar(NEEDED)
    handled = newest if needed is None else needed
    log = SCHEMA_STATEMENTS.c
    is_over = and_(log.id <= handled, log.time < now - KEPT_MS)
    connection.execute(delete(SCHEMA_STATEMENTS).where(or_(is_over, log.id <= newest - MAX_STATEMENTS)))
