"""The connections that clients have open to a process."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Protocol


class OpenConnection(Protocol):
    """A connection. Instants are in epoch ms.

    Attributes:
        id: Its number, by which `KILL CONNECTION` names it.
        opened: When it was opened.
        used: When its last statement began.
    """

    id: int
    opened: int
    used: int

    @property
    def user(self) -> str:
        """Whose it is."""

    @property
    def door(self) -> str:
        """The door through which it came."""

    @property
    def address(self) -> str:
        """The client's host:port."""

    def kill(self) -> None:
        """End its statement, and let no other begin."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a client comes from.

    Attributes:
        door: How it comes in, such as `iotdb`.
        address: The address of its connection, as host:port; empty for this process.
    """

    door: str
    address: str = ""

    @property
    def host(self) -> str:
        """The host of the address."""
        return self.address.rpartition(":")[0].strip("[]")

    def __str__(self) -> str:
        return f"{self.door} {self.address}".strip()


class OpenConnections:
    """The open connections of a process, oldest first. Thread-safe."""

    def __init__(self) -> None:
        """Create it empty. Numbers begin anywhere, so that connections of several snodes hardly have the same."""
        self._numbers = itertools.count(secrets.randbelow(1 << 30) + 1)
        self._lock = threading.Lock()
        self._connections: dict[int, OpenConnection] = {}
        self._users: Counter[str] = Counter()

    def next_id(self) -> int:
        """Return the number of a new connection."""
        return next(self._numbers)

    def add(self, connection: OpenConnection, max_count: int) -> bool:
        """Add a connection, unless `max_count` are open, or nine in ten of them of the user; return whether it was added."""
        with self._lock:
            if len(self._connections) >= max_count or self._users[connection.user] >= max_count - max_count // 10:
                return False
            self._connections[connection.id] = connection
            self._users[connection.user] += 1
            return True

    def remove(self, id: int) -> OpenConnection | None:
        """Remove and return a connection; None if it is not open."""
        with self._lock:
            connection = self._connections.pop(id, None)
            if connection is not None:
                self._users[connection.user] -= 1
                if not self._users[connection.user]:
                    del self._users[connection.user]
            return connection

    def all(self) -> list[OpenConnection]:
        """Return the open connections."""
        with self._lock:
            return list(self._connections.values())

    def kill(self, id: int) -> bool:
        """End a connection; return False if it is not open."""
        connection = self.remove(id)
        if connection is not None:
            connection.kill()
        return connection is not None
