"""Events of windows to a WebSocket server on this machine: from the return of an append to the last event.

Beside it, the server gets the same messages from a program that only sends them, which is the least that any sender takes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from benchmarks.bench import Bench
from benchmarks.data import START_MS
from benchmarks.measure import Memory, Side, interleave
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement

EVENTS = 20_000
LIMIT_SECONDS = 1.0
DATABASE = "notifications"
PLAIN = "the same messages, only sent"


class EventCounter:
    """A server that counts events, and can wait for a number of them."""

    def __init__(self) -> None:
        self._counted = threading.Condition()
        self._events = 0
        self.messages: list[str | bytes] = []
        self._server = serve(self._count, "127.0.0.1", 0, compression=None)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def wait_for(self, events: int) -> None:
        """Return once this many events have come since the last call."""
        with self._counted:
            self._counted.wait_for(lambda: self._events >= events)
            self._events -= events

    def clear(self) -> None:
        """Keep the messages that come from now on."""
        self.messages = []

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()

    def _count(self, connection: ServerConnection) -> None:
        for text in connection:
            events = sum(len(stream["events"]) for stream in json.loads(text)["streams"])
            with self._counted:
                self.messages.append(text)
                self._events += events
                self._counted.notify_all()


class Sender:
    """Appends rows that open and close a window of ten seconds each."""

    def __init__(self, bench: Bench, server: EventCounter, probe: Probe) -> None:
        self._bench = bench
        self._probe = probe
        self._server = server
        self._next = 0
        for sql in (
            f"CREATE DATABASE {DATABASE}",
            f"CREATE STABLE {DATABASE}.readings (ts TIMESTAMP, a DOUBLE) TAGS (g INT)",
            f"CREATE STREAM {DATABASE}.s TRIGGER AT_ONCE INTO {DATABASE}.out AS SELECT _wstart, count(*) n, avg(a) mean "
            f"FROM {DATABASE}.readings PARTITION BY tbname INTERVAL(10s) "
            f"NOTIFY ('{server.url}') ON ('WINDOW_OPEN', 'WINDOW_CLOSE')",
        ):
            bench.connection.execute(sql)
        self()

    def __call__(self) -> Sequence[float]:
        windows = EVENTS // 2
        starts = range(self._next, self._next + windows // 10)
        self._next = starts.stop
        rows = pa.table(
            {
                "tbname": [f"r{number}" for number in range(10) for _ in starts],
                "ts": pa.array([START_MS + start * 10_000 for _ in range(10) for start in starts], pa.timestamp("ms", "UTC")),
                "a": pa.array([float(start % 7) for _ in range(10) for start in starts]),
            }
        )
        self._bench.connection.append(rows, into=f"{DATABASE}.readings")
        self._server.clear()
        with self._probe.activate():
            start = time.perf_counter()
            self._bench.connection.settle()
            self._server.wait_for(EVENTS)
            return [time.perf_counter() - start]


class PlainSender:
    """Sends the messages of the last round over one connection."""

    def __init__(self, server: EventCounter) -> None:
        self._server = server

    def __call__(self) -> Sequence[float]:
        messages = self._server.messages
        self._server.clear()
        with connect(self._server.url, compression=None) as connection:
            start = time.perf_counter()
            for message in messages:
                connection.send(message)
            self._server.wait_for(EVENTS)
            return [time.perf_counter() - start]


def timed_functions() -> list[TimedFunction]:
    """Return the parts of the way of an event, in their order; those from `send` on are in a thread of their own."""
    from headrace.storage.delta.outbox import Outbox
    from headrace.storage.delta.writer import Writer
    from headrace.streams.notifications.messages import MessageEncoder
    from headrace.streams.notifications.sender import NotificationSender
    from headrace.streams.sources.reader import ChangeReader
    from headrace.streams.state.store import StateStore
    from headrace.streams.windows.processor import WindowProcessor

    return [
        TimedFunction("read changes", ChangeReader, "read_after"),
        TimedFunction("step", WindowProcessor, "process_batch"),
        TimedFunction("encode messages", MessageEncoder, "encode"),
        TimedFunction("write state, with the messages", StateStore, "write"),
        TimedFunction("commit results", Writer, "replace"),
        TimedFunction("commit messages", Outbox, "append"),
        TimedFunction("send (the server decodes in the same process)", NotificationSender, "__call__"),
        TimedFunction("remove sent messages", Outbox, "remove"),
    ]


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure how long a server waits for the events of one micro-batch."""
    server = EventCounter()
    try:
        name = f"{EVENTS:,} events of windows to a server"
        probe, memory = Probe(timed_functions()), Memory()
        sides: dict[str, Side] = {name: memory.watch(name, Sender(bench, server, probe)), PLAIN: PlainSender(server)}
        timings = interleave(sides, bench.sizes.rounds, bench.log)
        yield Measurement(
            name,
            timings[name],
            limit=Limit(seconds=LIMIT_SECONDS),
            parts=probe.timings(),
            others={PLAIN: timings[PLAIN]},
            peaks=memory.peaks,
            note=f"{EVENTS / timings[name].median:,.0f} events/s",
        )
    finally:
        server.close()
