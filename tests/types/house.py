"""An open home and its clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

import headrace

PASSWORD: Final = "correct-horse"


@dataclass(frozen=True)
class House:
    """A home: connections of both dialects, a client of TDengine's REST interface, addresses of doors, a folder for files."""

    connection: headrace.Connection
    tree: headrace.Connection
    http: httpx.Client
    addresses: dict[str, str]
    folder: Path

    def rows(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters).fetchall()

    def times(self, condition: str, parameters: Sequence[Any] | None = None) -> list[int]:
        """Return the ticks of the rows of the table that meet a condition."""
        return [tick for (tick,) in self.rows(f"select cast(_ts as bigint) from t where {condition} order by _ts", parameters)]

    def rest(self, sql: str) -> Any:
        """Return the answer of TDengine's REST interface."""
        answer = self.http.post("/rest/sql/d", content=sql).json()
        assert answer["code"] == 0, answer
        return answer

    def post(self, path: str, content: str) -> None:
        response = self.http.post(path, content=content)
        assert response.status_code < 300, response.text

    @contextmanager
    def flight(self) -> Iterator[Any]:
        """Open a cursor of the unchanged Flight SQL client."""
        from adbc_driver_flightsql import dbapi

        options = {"username": "root", "password": PASSWORD, "adbc.flight.sql.rpc.call_header.database": "d"}
        with (
            dbapi.connect(f"grpc://{self.addresses['flight']}", db_kwargs=options, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Open a session of the unchanged IoTDB client."""
        from iotdb.Session import Session

        host, _, port = self.addresses["iotdb"].rpartition(":")
        session = Session(host, int(port), user="root", password=PASSWORD, zone_id="UTC", fetch_size=100)
        session.open(False)
        try:
            yield session
        finally:
            session.close()
