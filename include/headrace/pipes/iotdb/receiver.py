"""Delivery to IoTDB servers: rows as batches of raw tablets, deleted points and changes of the schema as statements."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from headrace.egress import EgressPolicy
from headrace.errors import ConfigurationError
from headrace.model.time import Precision
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.pipes.iotdb import messages, requests
from headrace.pipes.iotdb.conflicts import FailurePolicy
from headrace.pipes.iotdb.connection import Connection, Node, login_of
from headrace.pipes.iotdb.deletions import delete_statements
from headrace.pipes.iotdb.nodes import Nodes
from headrace.pipes.iotdb.statuses import check_status, failed_parts, is_repeated, status_error
from headrace.pipes.iotdb.tablets import encode_tablets
from headrace.pipes.plugins import Delivery, Sink
from headrace.pipes.sinks.iotdb_thrift_options import ThriftOptions

MAX_STATEMENTS: Final = 500
"""Statements in a request."""
DELETE: Final = "data.delete"
MAX_SHOWN: Final = 80
"""Characters of a statement in messages."""


class ThriftSink(Sink):
    """Sends to the nodes of an IoTDB cluster. What is sent again after a failure has no other effect than the first time."""

    def __init__(
        self, options: ThriftOptions, timeout_ms: int, egress: EgressPolicy, rejected_since: dict[str, float] | None = None
    ) -> None:
        """Take the options, how long an answer may take, and `Shared.rejected_since`; nothing is connected yet."""
        self._options = options
        self._cluster = f"headrace-{uuid.uuid4()}"
        self._compressor = requests.Compressor(options.compressors, options.zstd_level)
        self._pace = Pace(options.bytes_per_second)
        self._policy = FailurePolicy(options.ignores_conflicts, options.conflict_seconds, options.other_seconds, rejected_since)
        login = login_of(options, egress, timeout_ms)
        self._nodes = Nodes([Node(*node) for node in options.nodes], login, options.strategy, self._introduce)
        self._precision: Precision | None = None

    def handshake(self) -> None:
        """Connect to all nodes that can be reached.

        Raises:
            OperationalError: No node can be reached.
            ConfigurationError: User or password are wrong.
        """
        self._nodes.connect()

    def heartbeat(self) -> None:
        """Introduce the pipe again, which is cheap."""
        self._nodes.run(self._introduce)

    def transfer(self, delivery: Delivery) -> None:
        """Send events in their order.

        Raises:
            OperationalError: No node can be reached, or one failed in a way that may pass.
            TerminalError: The receiver rejects what it got, or the user may not write there.
        """
        for kind, events in groupby(delivery.events, type):
            if kind is InsertEvent:
                self._insert(delivery.pipe_id, events)
            else:
                self._execute(self._statements(events))
        self._policy.reset(delivery.pipe_id)

    def close(self) -> None:
        """Close all connections."""
        self._nodes.close()

    def _introduce(self, connection: Connection) -> None:
        """Send the handshake on a connection."""
        options = self._options
        request = requests.handshake(
            {
                "clusterID": self._cluster,
                "timestampPrecision": connection.precision.value,
                "convertOnTypeMismatch": str(options.converts_types).lower(),
                "loadTsFileStrategy": "sync",
                "username": options.user,
                "password": options.password,
                "markAsPipeRequest": str(options.is_marked).lower(),
            }
        )
        check_status(connection.node, "accept the pipe", transfer(connection, request))
        if self._precision not in (None, connection.precision):
            raise ConfigurationError(
                f"IoTDB at {connection.node} has times in {connection.precision}, another node in {self._precision}",
                hint="name the nodes of one cluster",
            )
        self._precision = connection.precision

    def _receiver_precision(self) -> Precision:
        """Return the unit of times at the receiver, which a handshake says."""
        return self._precision or self._nodes.run(lambda connection: connection.precision)

    def _insert(self, pipe_id: str, events: Iterable[Event]) -> None:
        precision, size = self._receiver_precision(), self._options.batch_bytes
        tablets = (
            tablet for event in events if isinstance(event, InsertEvent) for tablet in encode_tablets(event.data, precision, size)
        )
        for request in requests.batches(tablets, size):
            self._send(pipe_id, self._compressor.apply(request))

    def _send(self, pipe_id: str, request: requests.Request) -> None:
        """Send tablets, and handle the answer."""
        self._pace.take(len(request.body))

        def attempt(connection: Connection) -> None:
            status = transfer(connection, request)
            for part in failed_parts(status):
                self._policy.handle(pipe_id, connection.node, f"write {request.tablets} tablets", part)

        self._nodes.run(attempt)

    def _statements(self, events: Iterable[Event]) -> Iterator[tuple[str, str]]:
        """Yield statements with what they do."""
        for event in events:
            if isinstance(event, DeleteEvent):
                yield from ((DELETE, sql) for sql in delete_statements(event, self._receiver_precision()))
            elif isinstance(event, StatementEvent):
                yield event.category, event.sql

    def _execute(self, statements: Iterator[tuple[str, str]]) -> None:
        held: list[tuple[str, str]] = []
        for statement in statements:
            held.append(statement)
            if len(held) == MAX_STATEMENTS:
                self._execute_batch(held)
                held = []
        if held:
            self._execute_batch(held)

    def _execute_batch(self, statements: Sequence[tuple[str, str]]) -> None:
        """Execute statements in order; one that has had its effect before is no failure."""
        self._pace.take(sum(len(sql) for _, sql in statements))

        def attempt(connection: Connection) -> None:
            status = connection.execute([sql for _, sql in statements])
            parts = list(status.subStatus or ()) or [status] * len(statements)
            for (category, sql), part in zip(statements, parts, strict=True):
                if failed_parts(part) and not is_repeated(category, part):
                    raise status_error(connection.node, f"execute {described(category, sql)}", part)

        self._nodes.run(attempt)


def transfer(connection: Connection, request: requests.Request) -> messages.Status:
    """Send a request of a pipe, and return the status of the answer."""
    message = messages.Transfer(version=requests.VERSION, type=request.kind, body=request.body)
    status: messages.Status = connection.call("pipeTransfer", message).status
    return status


def described(category: str, sql: str) -> str:
    """Return a statement for messages, shortened; those about users are not shown, since they may have passwords."""
    if category.startswith("auth."):
        return f"a statement of {category}"
    return sql if len(sql) <= MAX_SHOWN else f"{sql[:MAX_SHOWN]}…"


class Pace:
    """Delays requests to at most a number of bytes per second."""

    def __init__(self, bytes_per_second: float) -> None:
        """Take the limit; there is none if it is not positive."""
        self._rate = bytes_per_second
        self._free_at = 0.0

    def take(self, size: int) -> None:
        """Wait until the requests before this one are within the limit."""
        if self._rate <= 0:
            return
        now = time.monotonic()
        time.sleep(max(0.0, self._free_at - now))
        self._free_at = max(self._free_at, now) + size / self._rate
