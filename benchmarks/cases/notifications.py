"""Events of windows to a WebSocket server on this machine: from the return of an append to the last event."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from websockets.sync.server import ServerConnection, serve

from benchmarks.bench import Bench
from benchmarks.data import START_MS
from benchmarks.measure import Side, interleave
from benchmarks.results import Limit, Measurement

EVENTS = 20_000
LIMIT_SECONDS = 1.0
DATABASE = "notifications"


class EventCounter:
    """A server that counts events, and can wait for a number of them."""

    def __init__(self) -> None:
        self._counted = threading.Condition()
        self._events = 0
        self._server = serve(self._count, "127.0.0.1", 0, compression=None)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def wait_for(self, events: int) -> None:
        """Return once this many events have come since the last call."""
        with self._counted:
            self._counted.wait_for(lambda: self._events >= events)
            self._events -= events

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()

    def _count(self, connection: ServerConnection) -> None:
        for text in connection:
            events = sum(len(stream["events"]) for stream in json.loads(text)["streams"])
            with self._counted:
                self._events += events
                self._counted.notify_all()


class Sender:
    """Appends rows that open and close a window of ten seconds each."""

    def __init__(self, bench: Bench, server: EventCounter) -> None:
        self._bench = bench
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
        start = time.perf_counter()
        self._bench.connection.settle()
        self._server.wait_for(EVENTS)
        return [time.perf_counter() - start]


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure how long a server waits for the events of one micro-batch."""
    server = EventCounter()
    try:
        name = f"{EVENTS:,} events of windows to a server"
        sides: dict[str, Side] = {name: Sender(bench, server)}
        for label, timings in interleave(sides, bench.sizes.rounds, bench.log).items():
            yield Measurement(label, timings, limit=Limit(seconds=LIMIT_SECONDS))
    finally:
        server.close()
