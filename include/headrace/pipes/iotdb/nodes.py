"""The nodes of a receiver: which of them gets a request, and what happens if it does not answer."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from headrace.pipes.iotdb.connection import BrokenConnectionError, Connection, Login, Node, none_available
from headrace.pipes.sinks.iotdb_thrift_options import PRIORITY, RANDOM

AVOIDED_S: Final = 30.0
"""How long a node that did not answer is tried after the others."""

R = TypeVar("R")


class Nodes:
    """Connections to the nodes of a receiver, one to each, opened when they are needed."""

    def __init__(self, nodes: Sequence[Node], login: Login, strategy: str, introduce: Callable[[Connection], None]) -> None:
        """Take the nodes.

        Args:
            nodes: The nodes, the preferred first.
            login: How to log in.
            strategy: `round-robin`, `random` or `priority`.
            introduce: Called with each new connection.
        """
        self._nodes = tuple(nodes)
        self._login = login
        self._strategy = strategy
        self._introduce = introduce
        self._open: dict[Node, Connection] = {}
        self._failed_at: dict[Node, float] = {}
        self._turns = itertools.count()
        self._last_error = ""

    def run(self, action: Callable[[Connection], R]) -> R:
        """Return the result of an action at a node. If the connection breaks, it is done again at the same or another node.

        Raises:
            OperationalError: No node can be reached.
        """
        for node in self._candidates():
            for connection in self._attempts(node):
                try:
                    return action(connection)
                except BrokenConnectionError as error:
                    self._drop(node, error)
        raise none_available(self._nodes, self._last_error)

    def _candidates(self) -> Sequence[Node]:
        """Return all nodes in the order in which they are tried."""
        nodes = list(self._nodes)
        if self._strategy == RANDOM:
            random.shuffle(nodes)
        elif self._strategy != PRIORITY:
            turn = next(self._turns) % len(nodes)
            nodes = nodes[turn:] + nodes[:turn]
        now = time.monotonic()
        return sorted(nodes, key=lambda node: now - self._failed_at.get(node, -AVOIDED_S) < AVOIDED_S)

    def _attempts(self, node: Node) -> Iterator[Connection]:
        """Yield the open connection of a node, and if that does not do, a new one."""
        if node in self._open:
            yield self._open[node]
        try:
            connection = Connection(node, self._login)
        except BrokenConnectionError as error:
            self._drop(node, error)
            return
        self._open[node] = connection
        try:
            self._introduce(connection)
        except BrokenConnectionError as error:
            self._drop(node, error)
            return
        except BaseException as error:
            self._drop(node, error)
            raise
        self._failed_at.pop(node, None)
        yield connection

    def _drop(self, node: Node, error: BaseException) -> None:
        self._failed_at[node] = time.monotonic()
        self._last_error = getattr(error, "message", str(error))
        if node in self._open:
            self._open.pop(node).close()

    def connect(self) -> None:
        """Open a connection to each node that can be reached, and check those that are open.

        Raises:
            OperationalError: No node can be reached.
        """
        for node in self._nodes:
            for connection in self._attempts(node):
                try:
                    self._introduce(connection)
                    break
                except BrokenConnectionError as error:
                    self._drop(node, error)
        if not self._open:
            raise none_available(self._nodes, self._last_error)

    def close(self) -> None:
        """Close all connections."""
        while self._open:
            self._open.popitem()[1].close()
