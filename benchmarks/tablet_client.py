"""A process of IoTDB clients that call `insertTablet`: many connections, each with one call at a time.

Its arguments are those of `benchmarks.ingest_client`, with `user:password` as the authorization. The calls are encoded before the
clock starts, so that the processor is left to the server.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from benchmarks.ingest_client import BASE_MS, Writes, Written
from headrace.doors.iotdb.messages import InsertTablet, Message, OpenSession, SessionAnswer, Status

MEASUREMENTS: Final = ("current", "voltage", "phase")
DOUBLE: Final = 4
SUCCESS: Final = 200
LENGTH: Final = struct.Struct(">i")


def frame(method: str, request: Message) -> bytes:
    """Return the frame of a call."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(method, TMessageType.CALL, 1)
    protocol.writeFieldBegin("req", TType.STRUCT, 1)
    request.write(protocol)
    protocol.writeFieldStop()
    content: bytes = buffer.getvalue()
    return LENGTH.pack(len(content)) + content


def tablet(writes: Writes, session: int, position: int, number: int) -> Message:
    """Return rows of the device of a connection, at instants of their own."""
    first = BASE_MS + number * writes.rows
    values = np.arange(first, first + writes.rows) % 100 / 10
    return InsertTablet(
        sessionId=session,
        prefixPath=f"root.{writes.database}.d{position}",
        measurements=list(MEASUREMENTS),
        values=values.astype(">f8").tobytes() * len(MEASUREMENTS),
        timestamps=np.arange(first, first + writes.rows, dtype=">i8").tobytes(),
        types=[DOUBLE] * len(MEASUREMENTS),
        size=writes.rows,
        isAligned=True,
    )


class Connection:
    """A connection with a session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, content: bytes, kind: type[Message]) -> Any:
        """Send a frame, and return the answer."""
        self._writer.write(content)
        (size,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        protocol = TBinaryProtocol(TMemoryBuffer(await self._reader.readexactly(size)))
        protocol.readMessageBegin()
        protocol.readFieldBegin()
        answer: Any = kind()
        answer.read(protocol)
        return answer

    async def log_in(self, writes: Writes) -> int:
        """Open the session, and return its number."""
        user, _, password = writes.authorization.partition(":")
        request = OpenSession(client_protocol=2, zoneId="UTC", username=user, password=password, configuration={"version": "V_1_0"})
        return int((await self.call(frame("openSession", request), SessionAnswer)).sessionId)

    def close(self) -> None:
        self._writer.close()


async def client(writes: Writes, connection: Connection, calls: list[bytes], start: float, position: int) -> list[float]:
    """Send the calls of one connection, and return how long each took."""
    latencies = []
    for number, content in enumerate(calls):
        if writes.rate:
            due = start + (number * writes.connections + position) / writes.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        status = await connection.call(content, Status)
        latencies.append(time.perf_counter() - sent)
        if status.code != SUCCESS:
            raise RuntimeError(status.message)
    return latencies


async def run(writes: Writes) -> Written:
    """Run all clients."""
    host, _, port = writes.address.partition(":")
    connections = [Connection(*await asyncio.open_connection(host, int(port))) for _ in range(writes.connections)]
    sessions = [await connection.log_in(writes) for connection in connections]
    calls = [
        [frame("insertTablet", tablet(writes, session, position, writes.first + number)) for number in range(writes.requests)]
        for position, session in enumerate(sessions)
    ]
    start = time.perf_counter()
    latencies = await asyncio.gather(
        *(client(writes, connection, calls[position], start, position) for position, connection in enumerate(connections))
    )
    written = Written(time.perf_counter() - start, [latency for own in latencies for latency in own])
    for connection in connections:
        connection.close()
    return written


if __name__ == "__main__":
    address, authorization, database, *rest = sys.argv[1:]
    connections, rows, requests, rate, first = rest
    done = asyncio.run(
        run(Writes(address, authorization, database, int(connections), int(rows), int(requests), float(rate), int(first)))
    )
    sys.stdout.write(json.dumps(asdict(done)))
