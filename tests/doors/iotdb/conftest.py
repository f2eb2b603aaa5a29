"""A door in this process, to an empty home, with one user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.doors.gate import Gate
from headrace.doors.iotdb.door import IotdbDoor
from headrace.doors.options import DoorOptions
from headrace.errors import AuthenticationError
from headrace.model.access import Principal
from headrace.model.connections import Origin
from tests.support.iotdb_client import iotdb_client  # noqa: F401  (fixture)

USER, PASSWORD = "root", "secret"
START = 1_700_000_000_000


def authenticate(user: str, password: str, origin: Origin) -> Principal:
    if (user, password) != (USER, PASSWORD):
        raise AuthenticationError("wrong user or password", hint="check both")
    return Principal(user, origin=str(origin))


@contextmanager
def opened_door(home: Path, options: DoorOptions | None = None, max_connections: int = 100) -> Iterator[tuple[IotdbDoor, Gate]]:
    with headrace.connect(home, dialect="iotdb", clock=headrace.ManualClock(START)) as connection:
        gate = Gate(connection.session.context, authenticate)
        door = IotdbDoor(gate, options or DoorOptions("127.0.0.1", 0), max_connections)
        door.start()
        try:
            yield door, gate
        finally:
            door.stop()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("door")


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[tuple[IotdbDoor, Gate]]:
    with opened_door(home) as door_and_gate:
        yield door_and_gate


@pytest.fixture
def door(opened: tuple[IotdbDoor, Gate]) -> IotdbDoor:
    return opened[0]


@pytest.fixture
def gate(opened: tuple[IotdbDoor, Gate]) -> Gate:
    return opened[1]


Connect = Callable[..., Any]


def close(session: Any) -> None:
    """Close a session, unless its connection has ended."""
    with suppress(Exception):
        session.close()


@pytest.fixture
def connect(door: IotdbDoor, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Open sessions of IoTDB's client, which are closed after the test."""
    request.getfixturevalue("iotdb_client")
    from iotdb.Session import Session

    with ExitStack() as stack:

        def open_session(compact: bool = False, **options: Any) -> Any:
            settings = {"user": USER, "password": PASSWORD, "zone_id": "UTC", "fetch_size": 3} | options
            session = Session("127.0.0.1", door.port, **settings)
            session.open(compact)
            stack.callback(close, session)
            return session

        yield open_session


@pytest.fixture
def session(connect: Connect) -> Any:
    """A session of IoTDB's client."""
    return connect()
