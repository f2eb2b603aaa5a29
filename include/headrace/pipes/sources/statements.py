"""Statements of the log of schema changes, put between the commits of the tables that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.model.positions import STATEMENTS, Offsets
from headrace.model.schema_log import LoggedStatement
from headrace.model.tree_statements import TreeStatement
from headrace.pipes.events import Event, StatementEvent
from headrace.pipes.feeds import Feeds, TableFeed
from headrace.pipes.plugins import SourceBatch
from headrace.pipes.selection import Pattern
from headrace.pipes.sources.pattern_paths import covers, cut
from headrace.sql import parse, to_sql
from headrace.trees.schema_statements import TTL

MAX_STATEMENTS: Final = 500
"""Statements of a batch."""
MAX_CHARACTERS: Final = 500_000
"""A batch ends with the statement at which its statements in the log are this long."""
RIGHTS: Final = "auth."


@dataclass(frozen=True, slots=True)
class RowsFirst:
    """What has to be read before the next statement: the rows of a table up to a version."""

    feed: TableFeed
    version: int


@dataclass(frozen=True, slots=True)
class StatementLog:
    """The statements that a source transfers.

    Attributes:
        context: The environment.
        feeds: The tables, to which those belong that statements are about.
        pattern: The series that are transferred; statements are cut to them.
        included: The categories that are transferred.
    """

    context: Context
    feeds: Feeds
    pattern: Pattern
    included: frozenset[str]

    def next(self, offsets: Offsets) -> SourceBatch | RowsFirst | None:
        """Return the next statements, or what comes before them; None if there are none.

        Call it after the versions of the tables were read: no row up to these needs a statement that it does not return.

        Raises:
            HistoryGoneError: Statements that were not read have been removed.
        """
        logged = self.context.catalog.schema_log.after(offsets[STATEMENTS], MAX_STATEMENTS)
        if not logged:
            return None
        self.feeds.refresh()
        events: list[Event] = []
        last, size = offsets[STATEMENTS], 0
        for one in logged:
            own = list(self.events(one))
            before = self._rows_before(one, offsets) if own else None
            if before is not None:
                if last == offsets[STATEMENTS]:
                    return before
                break
            events += own
            last, size = one.id, size + len(one.sql)
            if size > MAX_CHARACTERS:
                break
        return SourceBatch(events, {**offsets, STATEMENTS: last})

    def again(self, offsets: Offsets, last: int) -> SourceBatch:
        """Return the statements up to one, as they were returned before."""
        logged = self.context.catalog.schema_log.after(offsets[STATEMENTS], MAX_STATEMENTS)
        events = [event for one in logged if one.id <= last for event in self.events(one)]
        return SourceBatch(events, {**offsets, STATEMENTS: last})

    def events(self, logged: LoggedStatement) -> Iterator[Event]:
        """Yield what is transferred of a statement."""
        if logged.category not in self.included:
            return
        if logged.category.startswith(RIGHTS) or self._is_whole(logged):
            yield StatementEvent(logged.sql, logged.category)
            return
        statement = parse(logged.sql, "iotdb")
        assert isinstance(statement, TreeStatement)
        yield from statement_events(logged.category, [statement], self.pattern)

    def _is_whole(self, logged: LoggedStatement) -> bool:
        """Return whether all that a statement is about matches: it need not be parsed, which takes long if it has many paths."""
        if logged.category == TTL:  # its path may lie above the database
            return False
        return not logged.database or covers(self.pattern, logged.database)

    def _rows_before(self, logged: LoggedStatement, offsets: Offsets) -> RowsFirst | None:
        """Return the rows that come before a statement; None if they are read, or their table was dropped."""
        feed = self.feeds.tree(logged.database)
        if feed is None or logged.time < feed.created or feed.offset(offsets) >= logged.version:
            return None
        return RowsFirst(feed, logged.version)


def statement_events(category: str, statements: Sequence[TreeStatement], pattern: Pattern) -> Iterator[Event]:
    """Yield statements, cut to the series that match."""
    for statement in statements:
        for own in cut(statement, pattern):
            yield StatementEvent(to_sql(own, "iotdb"), category)
