"""A process of clients that write line protocol: many connections, each with one request at a time.

`python -m benchmarks.ingest_client address authorization database connections rows requests rate first` prints what it measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import uvloop

from headrace.cli.output import buffer_output

BASE_MS: Final = 1_700_000_000_000
SUBTABLES: Final = 100


@dataclass(frozen=True, slots=True)
class Writes:
    """What the clients do: `requests` of each connection, `rate` per second in total (0: as fast as they are answered)."""

    address: str
    authorization: str
    database: str
    connections: int
    rows: int
    requests: int
    rate: float
    first: int
    """The number of the first request, by which the instants of rows differ from those of earlier runs."""


@dataclass(frozen=True, slots=True)
class Written:
    """The seconds that all took, and each of the requests."""

    seconds: float
    latencies: list[float]


def body(writes: Writes, number: int) -> bytes:
    """Return the lines of a request: rows of a hundred subtables in turn, at instants of their own."""
    lines = (
        f"meters,location=sf,group=g{row % SUBTABLES} current={10 + row * 0.1:.1f},voltage={210 + row % 30}i32,phase=0.3{row % 100}"
        f" {BASE_MS + number * writes.rows + row}"
        for row in range(writes.rows)
    )
    return "\n".join(lines).encode()


def request(writes: Writes, number: int) -> bytes:
    content = body(writes, number)
    head = (
        f"POST /influxdb/v1/write?db={writes.database}&precision=ms HTTP/1.1\r\nHost: {writes.address}\r\n"
        f"Authorization: {writes.authorization}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Client(asyncio.Protocol):
    """Sends the requests of a connection, one after the other. It does little, to leave the processor to the server."""

    def __init__(self, size_of: Callable[[bytes], int | None]) -> None:
        """Take what returns the size of an answer of which some bytes are there, None if they are too few."""
        self._size_of = size_of
        self._received = b""
        self._sent = 0.0

    @classmethod
    async def connected(cls, writes: Writes, size_of: Callable[[bytes], int | None]) -> Client:
        """Return a client that is connected."""
        host, _, port = writes.address.partition(":")
        return (await asyncio.get_running_loop().create_connection(lambda: cls(size_of), host, int(port)))[1]

    def start(self, requests: Sequence[bytes], pace: Callable[[int], float] | None = None) -> asyncio.Future[None]:
        """Send each request once the one before it is answered, and `pace` says that it is due; return when all are answered."""
        self._requests, self._pace = requests, pace
        self.latencies: list[float] = []
        self.answers: list[bytes] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send_next()
        return self._done

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail if there are unanswered requests."""
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server has closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Read an answer."""
        self._received += data
        size = self._size_of(self._received)
        if size is not None and len(self._received) >= size:
            self.latencies.append(time.perf_counter() - self._sent)
            self.answers.append(self._received)
            self._received = b""
            self._send_next()

    def _send_next(self) -> None:
        number = len(self.answers)
        if number == len(self._requests):
            self._done.set_result(None)
        elif self._pace is not None and (wait := self._pace(number) - time.perf_counter()) > 0:
            asyncio.get_running_loop().call_later(wait, self._send, number)
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._requests[number])


async def send_all(writes: Writes, clients: Sequence[Client], requests: Sequence[Sequence[bytes]]) -> Written:
    """Send the requests of all clients, and return how long that took."""
    start = time.perf_counter()
    pairs = enumerate(zip(clients, requests, strict=True))
    sent = [client.start(own, pace_of(writes, start, position) if writes.rate else None) for position, (client, own) in pairs]
    await asyncio.gather(*sent)
    written = Written(time.perf_counter() - start, [latency for client in clients for latency in client.latencies])
    for client in clients:
        client.close()
    return written


def pace_of(writes: Writes, start: float, position: int) -> Callable[[int], float]:
    """Return when each request of a connection is due."""
    return lambda number: start + (number * writes.connections + position) / writes.rate


async def run(writes: Writes) -> Written:
    """Run all clients."""
    last = writes.first + writes.requests * writes.connections
    numbers = [range(writes.first + position, last, writes.connections) for position in range(writes.connections)]
    requests = [[request(writes, number) for number in own] for own in numbers]
    clients = [await Client.connected(writes, head_size) for _ in numbers]
    written = await send_all(writes, clients, requests)
    for answer in (answer for client in clients for answer in client.answers):
        if not answer.startswith(b"HTTP/1.1 204"):
            raise RuntimeError(answer.decode())
    return written


def head_size(received: bytes) -> int | None:
    """Return the size of an answer without a body."""
    end = received.find(b"\r\n\r\n")
    return None if end < 0 else end + 4


def main(run: Callable[[Writes], Coroutine[Any, Any, Written]]) -> None:
    """Run the clients that the command line describes, and print what they measured."""
    address, authorization, database, *rest = sys.argv[1:]
    connections, rows, requests, rate, first = rest
    writes = Writes(address, authorization, database, int(connections), int(rows), int(requests), float(rate), int(first))
    buffer_output()
    sys.stdout.write(json.dumps(asdict(uvloop.run(run(writes)))))


if __name__ == "__main__":
    main(run)
