"""Rows that clients send as Arrow, written into a table or a tree: all of them, or none."""

from __future__ import annotations

from typing import Any

from headrace.doors.flight.limits import FlightLimits
from headrace.doors.gate import DoorConnection
from headrace.errors import NotSupportedError
from headrace.service.connection import Connection


def ingest(connection: DoorConnection, command: Any, reader: Any, limits: FlightLimits) -> int:
    """Write rows into the table that a command names; return their number. Columns are matched by name.

    Raises:
        NotSupportedError: The table would be temporary.
        NotFoundError: There is no such table.
        DataError: A value is invalid; nothing has been written.
        LimitError: There are too many.
    """
    if command.temporary:
        raise NotSupportedError("there are no temporary tables", hint="name a table that exists")
    database = command.schema or connection.session.database
    table = f"{database}.{command.table}" if database else command.table
    with connection.lock, limits.received(connection.user, reader.to_reader()) as rows:
        connection.check()
        connection.sql = f"append to {table}"
        return Connection(connection.session).append(rows, table)
