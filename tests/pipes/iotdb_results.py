"""What an IoTDB server has, read back by a session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.pipes.iotdb.connection import Connection, Login, Node
from headrace.pipes.iotdb.queries import query
from headrace.pipes.iotdb.statuses import check_status
from tests.support.iotdb_server import Server

LOGIN = Login("root", "root")


@contextmanager
def session(server: Server) -> Iterator[Connection]:
    connection = Connection(Node("127.0.0.1", server.port), LOGIN)
    try:
        yield connection
    finally:
        connection.close()


def execute(server: Server, *statements: str) -> None:
    with session(server) as connection:
        check_status(connection.node, "execute", connection.execute(statements))


def rows(server: Server, sql: str) -> list[tuple[Any, ...]]:
    with session(server) as connection:
        table = query(connection, sql)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []
