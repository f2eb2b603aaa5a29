"""A process of clients that write line protocol: many connections, each with one request at a time.

`python -m benchmarks.ingest_client address authorization database connections rows requests rate first` prints what it measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final

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


async def client(writes: Writes, requests: list[bytes], start: float, position: int) -> list[float]:
    """Send the requests of one connection, and return how long each took."""
    host, _, port = writes.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    latencies = []
    for number, content in enumerate(requests):
        if writes.rate:
            due = start + (number * writes.connections + position) / writes.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        latencies.append(time.perf_counter() - sent)
        if not head.startswith(b"HTTP/1.1 204"):
            raise RuntimeError(head.decode())
    writer.close()
    return latencies


async def run(writes: Writes) -> Written:
    """Run all clients."""
    numbers = range(writes.connections)
    requests = [
        [request(writes, writes.first + number * writes.connections + position) for number in range(writes.requests)]
        for position in numbers
    ]
    start = time.perf_counter()
    latencies = await asyncio.gather(*(client(writes, requests[position], start, position) for position in numbers))
    return Written(time.perf_counter() - start, [latency for own in latencies for latency in own])


if __name__ == "__main__":
    address, authorization, database, *rest = sys.argv[1:]
    connections, rows, requests, rate, first = rest
    done = asyncio.run(
        run(Writes(address, authorization, database, int(connections), int(rows), int(requests), float(rate), int(first)))
    )
    sys.stdout.write(json.dumps(asdict(done)))
