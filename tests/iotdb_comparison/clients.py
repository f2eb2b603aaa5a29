"""The two sides of the comparison: Headrace in this process, and an IoTDB server."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final, Protocol

import headrace
from tests.iotdb_comparison.outcomes import Answer, Column, Outcome, Refusal, Value, plain
from tests.iotdb_comparison.registered import EXAMPLES

STATUS: Final = re.compile(r"(\d{3,4}): (.*)", re.DOTALL)
TYPES: Final = {"int32": "INT32", "int64": "INT64", "float": "FLOAT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "TEXT"}
TYPES_BY_PREFIX: Final = {
    "timestamp": "TIMESTAMP",
    "date": "DATE",
    "binary": "BLOB",
    "large_string": "TEXT",
    "large_binary": "BLOB",
}
SHOWN: Final = {"STRING": "TEXT"}
INSTANTS: Final = ("Time", "__endTime")
"""Columns that are instants for readers, and INT64 in the server's answers."""
QUERIES: Final = ("select", "show", "count")
PLUGINS: Final = Path(__file__).parents[1] / "conformance" / "conformance_plugins.py"
MESSAGE_CHARACTERS: Final = 500
NOW: Final = 1_750_000_000_000
"""Later than all rows, as the server's clock is."""


class Side(Protocol):
    """A server that executes statements."""

    def execute(self, statement: str) -> Outcome:
        """Execute a statement and return its whole result."""


def refusal(message: str) -> Refusal:
    """Return the refusal that a message tells, which begins with its status."""
    match = STATUS.match(message)
    return Refusal(int(match[1]), match[2]) if match else Refusal(0, message)


class HeadraceSide:
    """Headrace in a home of its own, with IoTDB's test functions in Python."""

    def __init__(self, home: Path) -> None:
        plugins = home / "ext" / "udf"
        plugins.mkdir(parents=True, exist_ok=True)
        shutil.copy(PLUGINS, plugins)
        self.connection = headrace.connect(home, dialect="iotdb", clock=headrace.ManualClock(NOW))

    def execute(self, statement: str) -> Outcome:
        """Execute a statement. An error that is not Headrace's is a refusal without status."""
        try:
            cursor = self.connection.execute(statement.replace(EXAMPLES, f"{PLUGINS.stem}."))
            rows = cursor.fetchall()
        except headrace.Error as error:
            return refusal(error.message[:MESSAGE_CHARACTERS])
        except Exception as error:
            return Refusal(0, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        columns = tuple(Column(name, column_type(kind)) for name, kind, *_ in cursor.description or ())
        return Answer(columns, tuple(tuple(plain(value) for value in row) for row in rows))

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def column_type(kind: Any) -> str:
    """Return IoTDB's name of an Arrow type."""
    name = str(kind)
    return TYPES.get(name) or next((type_ for prefix, type_ in TYPES_BY_PREFIX.items() if name.startswith(prefix)), name)


class IotdbSide:
    """A session with an IoTDB server. Needs the package apache-iotdb."""

    def __init__(self, host: str, port: int, timezone: str = "UTC") -> None:
        from iotdb.Session import Session

        logging.getLogger("IoTDB").setLevel(logging.CRITICAL)
        self.session = Session(host, port, "root", "root", zone_id=timezone, fetch_size=10_000)
        self.session.open(False)

    def execute(self, statement: str) -> Outcome:
        """Execute a statement."""
        try:
            if statement.split(maxsplit=1)[0].lower() in QUERIES:
                return read(self.session.execute_query_statement(statement))
            self.session.execute_non_query_statement(statement)
            return Answer((), ())
        except RuntimeError as error:
            return refusal(str(error))
        except TypeError:  # the client adds the message to a text, and some internal errors have none
            return Refusal(0, "INTERNAL_SERVER_ERROR without a message")

    def close(self) -> None:
        """Close the session."""
        self.session.close()


def read(result: Any) -> Answer:
    """Return all rows of a result, and close it."""
    names, types = result.get_column_names(), [type_.name for type_ in result.get_column_types()]
    timed = names[:1] == ["Time"] and types[0] == "INT64" and not result.is_ignore_timestamp
    columns = [Column(name, SHOWN.get(type_, type_)) for name, type_ in zip(names, types, strict=True)]
    columns = [Column(each.name, "TIMESTAMP") if each.name in INSTANTS else each for each in columns]
    rows = []
    while result.has_next():
        record = result.next()
        values = [value(field, type_) for field, type_ in zip(record.get_fields(), types[timed:], strict=True)]
        rows.append((int(record.get_timestamp()), *values) if timed else tuple(values))
    result.close_operation_handle()
    return Answer(tuple(columns), tuple(rows))


def value(field: Any, type_: str) -> Value:
    """Return the value of a field."""
    if field.is_null():
        return None
    match type_:
        case "BOOLEAN":
            return bool(field.value)
        case "FLOAT" | "DOUBLE":
            return float(field.value)
        case "TEXT" | "STRING":
            return bytes(field.value).decode(errors="backslashreplace")
        case "BLOB":
            return bytes(field.value)
        case _:
            return int(field.value)


def server_address() -> tuple[str, int] | None:
    """Return the address in the environment variable IOTDB, as host:port."""
    host, _, port = os.environ.get("IOTDB", "").partition(":")
    return (host, int(port or 6667)) if host else None
