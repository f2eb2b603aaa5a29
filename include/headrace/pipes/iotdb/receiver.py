"""Delivery to IoTDB servers: rows as batches of raw tablets, deleted points and changes of the schema as statements."""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.egress import EgressPolicy
from headrace.errors import ConfigurationError, Error, IntegrityError, TransientError
from headrace.model.time import Precision
from headrace.pipes.events import TIME, DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.pipes.iotdb import messages, requests
from headrace.pipes.iotdb.columns import to_precision
from headrace.pipes.iotdb.connection import Connection, Node, login_of
from headrace.pipes.iotdb.nodes import Nodes
from headrace.pipes.iotdb.statuses import (
    IDEMPOTENT_CONFLICT,
    USER_CONFLICT,
    Answer,
    check_status,
    failed_parts,
    is_repeated,
    status_error,
    status_text,
)
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


log: Final = logging.getLogger(__name__)
TYPE_MISMATCH: Final = "registered type"
"""The words by which IoTDB says that a value has another type than its series."""


class FailurePolicy:
    """Decides which errors may pass, by how long they have lasted for a pipe."""

    def __init__(
        self, ignores_conflicts: bool, conflict_seconds: int, other_seconds: int, rejected_since: dict[str, float] | None = None
    ) -> None:
        """Take the options, and since when deliveries of pipes are rejected, which outlives the sink."""
        self._ignores_conflicts = ignores_conflicts
        self._conflict_seconds = conflict_seconds
        self._other_seconds = other_seconds
        self._rejected_since = {} if rejected_since is None else rejected_since

    def reset(self, pipe_id: str) -> None:
        """Take note that a delivery of a pipe has succeeded."""
        self._rejected_since.pop(pipe_id, None)

    def handle(self, pipe_id: str, node: object, action: str, status: Answer) -> None:
        """Raise the error of a status that is no success, unless it may be ignored.

        Raises:
            TransientError: Another try may help, and has not been in vain for too long.
            TerminalError: It does not help, or has been in vain for too long.
        """
        is_mismatch = TYPE_MISMATCH in (status.message or "").lower()
        if status.code == IDEMPOTENT_CONFLICT and not is_mismatch:
            return
        is_conflict = status.code == USER_CONFLICT or is_mismatch
        if is_conflict and self._ignores_conflicts:
            log.warning("IoTDB at %s failed to %s; ignored as a conflict: %s", node, action, status_text(status))
            return
        seconds = self._conflict_seconds if is_conflict else self._other_seconds
        raise self._bounded(pipe_id, status_error(node, action, status), seconds)

    def _bounded(self, pipe_id: str, error: Error, seconds: int) -> Error:
        """Return a transient error, or a terminal one if it has lasted too long."""
        now = time.monotonic()
        since = self._rejected_since.setdefault(pipe_id, now)
        if not isinstance(error, TransientError) or seconds < 0 or now - since < seconds:
            return error
        self.reset(pipe_id)  # the time begins again when a user starts the pipe
        return IntegrityError(
            f"{error.message}, for more than {seconds} s",
            hint="remove the cause at the receiver and start the pipe, or raise the sink's retry-max-time-seconds",
        )


MAX_PATHS: Final = 500
"""Paths in a statement."""
MAX_TIME: Final = 2**63 - 1

Integers = npt.NDArray[np.int64]
TimeRange = tuple[int, int]


def delete_statements(event: DeleteEvent, precision: Precision) -> Iterator[str]:
    """Yield statements that delete the points of an event, and no others that the source has.

    Points in a range in which there are no others need one statement. Otherwise, instants that follow each other without a gap
    become a range. Series with the same range share a statement.
    """
    for (first, last), series in series_by_range(event, precision).items():
        for start in range(0, len(series), MAX_PATHS):
            yield f"DELETE FROM {', '.join(series[start : start + MAX_PATHS])}{condition(first, last)}"


def series_by_range(event: DeleteEvent, precision: Precision) -> dict[TimeRange, list[str]]:
    """Return the series to delete for each range of times, both ends inclusive."""
    data = event.data
    encoded = data.devices
    devices = encoded.indices.to_numpy().astype(np.int64)
    paths = encoded.dictionary.to_pylist()
    series: dict[TimeRange, dict[str, None]] = defaultdict(dict)
    for column, measurement in data.columns.items():
        valid = data.rows[column].combine_chunks().is_valid().to_numpy(zero_copy_only=False)
        for device, first, last in ranges(devices[valid], data.rows[TIME].to_numpy()[valid], event, precision):
            series[first, last][f"{paths[device]}.{measurement.name}"] = None
    return {key: list(named) for key, named in series.items()}


def ranges(devices: Integers, times: Integers, event: DeleteEvent, precision: Precision) -> Iterator[tuple[int, int, int]]:
    """Yield device, first and last time, in the unit of the receiver, of what covers the instants of devices."""
    others = np.ones(len(times), np.bool_)
    for low, high in event.ranges:
        is_inside = (times >= low) & (times <= high)
        others &= ~is_inside
        span = converted((low, high), event.data.precision, precision)
        yield from ((device, *span) for device in np.unique(devices[is_inside]).tolist())
    yield from ranges_without_gaps(devices[others], to_precision(times[others], event.data.precision, precision))


def converted(span: TimeRange, precision: Precision, receiver: Precision) -> TimeRange:
    """Return a range in the unit of the receiver; an end that it cannot have is its least or greatest one."""
    low, high = (end * precision.nanoseconds // receiver.nanoseconds for end in span)
    return max(low, -MAX_TIME), min(high, MAX_TIME)


def ranges_without_gaps(devices: Integers, times: Integers) -> Iterator[tuple[int, int, int]]:
    """Yield device, first and last time of instants without gaps."""
    if not len(devices):
        return
    order = np.lexsort((times, devices))
    devices, times = devices[order], times[order]
    follows = (devices[1:] == devices[:-1]) & (times[1:] - times[:-1] <= 1)
    firsts = np.flatnonzero(np.append(True, ~follows))
    lasts = np.append(firsts[1:], len(devices)) - 1
    yield from zip(devices[firsts].tolist(), times[firsts].tolist(), times[lasts].tolist(), strict=True)


def condition(first: int, last: int) -> str:
    """Return the WHERE clause for a range; an end without a bound is left out."""
    if first == last:
        return f" WHERE time = {first}"
    bounds = []
    if first > -MAX_TIME:
        bounds.append(f"time >= {first}")
    if last < MAX_TIME:
        bounds.append(f"time <= {last}")
    return f" WHERE {' AND '.join(bounds)}" if bounds else ""
