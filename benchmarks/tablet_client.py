"""A process of IoTDB clients that call `insertTablet`: many connections, each with one call at a time.

Its arguments are those of `benchmarks.ingest_client`, with `user:password` as the authorization. Calls are encoded before the clock
starts, and the answers decoded after it has stopped, so that the processor is left to the server.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from benchmarks.ingest_client import BASE_MS, Client, Writes, Written, main, send_all
from headrace.pipes.iotdb.messages import InsertTablet, Message, OpenSession, SessionAnswer, Status

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


def frame_bytes(received: bytes) -> int | None:
    """Return the size of a frame with its length."""
    return None if len(received) < LENGTH.size else LENGTH.size + int(LENGTH.unpack_from(received)[0])


def decoded(content: bytes, kind: type[Message]) -> Any:
    """Return the answer in a frame."""
    protocol = TBinaryProtocol(TMemoryBuffer(content[LENGTH.size :]))
    protocol.readMessageBegin()
    protocol.readFieldBegin()
    answer: Any = kind()
    answer.read(protocol)
    return answer


async def log_in(writes: Writes, client: Client) -> int:
    """Open a session, and return its number."""
    user, _, password = writes.authorization.partition(":")
    request = OpenSession(client_protocol=2, zoneId="UTC", username=user, password=password, configuration={"version": "V_1_0"})
    await client.start([frame("openSession", request)])
    return int(decoded(client.answers[0], SessionAnswer).sessionId)


async def run(writes: Writes) -> Written:
    """Run all clients."""
    clients = [await Client.connected(writes, frame_bytes) for _ in range(writes.connections)]
    sessions = [await log_in(writes, client) for client in clients]
    numbers = range(writes.first, writes.first + writes.requests)
    calls = [
        [frame("insertTablet", tablet(writes, session, position, number)) for number in numbers]
        for position, session in enumerate(sessions)
    ]
    written = await send_all(writes, clients, calls)
    for answer in (answer for client in clients for answer in client.answers):
        status = decoded(answer, Status)
        if status.code != SUCCESS:
            raise RuntimeError(status.message)
    return written


if __name__ == "__main__":
    main(run)
