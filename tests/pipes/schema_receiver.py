"""A receiver of rows, deleted points and statements: another home."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import headrace
from headrace.errors import ExistsError, NotFoundError, ProgrammingError
from headrace.model.tree_statements import DropTimeseries
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.pipes.plugins import Delivery
from headrace.pipes.sinks.write_back import WriteBackSink
from headrace.sql import parse, to_sql

DONE_BEFORE = (ExistsError, NotFoundError)
"""What a statement raises that has no more to do."""


class HomeReceiver:
    """Applies events to a home. Events that come again change nothing."""

    def __init__(self, connection: headrace.Connection) -> None:
        self.connection = connection
        self._rows = WriteBackSink(connection.session.context)

    def receive(self, events: Iterable[Event]) -> None:
        """Apply events in order."""
        for event in events:
            if isinstance(event, InsertEvent):
                self._rows.transfer(Delivery("pipe", 1, [event]))
            elif isinstance(event, DeleteEvent):
                for statement in deletions(event):
                    self.connection.execute(statement)
            else:
                self.execute(event)

    def execute(self, event: StatementEvent) -> None:
        """Run a statement; one about several series goes on with those that there are."""
        try:
            self.connection.execute(event.sql)
        except DONE_BEFORE:
            statement = parse(event.sql, "iotdb")
            if isinstance(statement, DropTimeseries) and len(statement.patterns) > 1:
                for pattern in statement.patterns:
                    self.execute(StatementEvent(to_sql(DropTimeseries((pattern,)), "iotdb"), event.category))


def deletions(event: DeleteEvent) -> Iterator[str]:
    for row in event.data.rows.to_pylist():
        for column, measurement in event.data.columns.items():
            if row[column] is not None:
                yield f"delete from {row[DEVICE]}.{measurement.name} where time = {row[TIME]}"


def shown(connection: headrace.Connection, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, sorted; none if its path does not exist."""
    try:
        return sorted(connection.execute(statement).fetchall(), key=repr)
    except (NotFoundError, ProgrammingError):
        return []


def home_of(connection: headrace.Connection, database: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a home shows of a database: schema, times to live, and points."""
    below = f"{database}.**"
    home = {what: shown(connection, f"show {what} {below}") for what in ("devices", "timeseries")}
    home["databases"] = shown(connection, f"show databases {database}")
    home["ttl"] = [row for row in shown(connection, "show all ttl") if row[0].startswith(f"{database}.")]
    home["points"] = []
    for device, *_ in home["devices"]:
        cursor = connection.execute(f"select * from {device} align by device")
        names = [column[0] for column in cursor.description or ()][2:]
        for row in cursor.fetchall():
            home["points"] += [
                (f"{device}.{name}", row[0], value) for name, value in zip(names, row[2:], strict=True) if value is not None
            ]
    home["points"].sort()
    return home
