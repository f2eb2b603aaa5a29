"""Messages over pipes, and what is not a message."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.code import protocol
from headrace.code.protocol import (
    MAGIC,
    PREFIX,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    GarbageError,
    Message,
    decode_parameters,
    encode_parameters,
)
from headrace.udf import Parameters, Type

TABLE = pa.table({"x": [1, None, 3], "text": ["a", "ä", None]})


@pytest.fixture
def pipe() -> Iterator[Channel]:
    """A channel whose messages come back to itself."""
    channel = Channel(*os.pipe(), max_body_bytes=1 << 20)
    yield channel
    channel.close()


def test_a_message_has_a_header_and_a_table(pipe: Channel) -> None:
    pipe.send({"a": [1, "ä"]}, TABLE)
    message = pipe.receive()
    assert message.header == {"a": [1, "ä"]}
    assert message.table().equals(TABLE)
    pipe.send({})
    assert pipe.receive() == Message({}, b"")


def test_a_message_that_does_not_come_or_is_not_read_ends_at_the_deadline(pipe: Channel) -> None:
    with pytest.raises(ChannelTimeoutError):
        pipe.receive(time.monotonic())
    with pytest.raises(ChannelTimeoutError):
        pipe.send({"text": "x" * (2 * protocol.PIPE_BYTES)}, None, time.monotonic())


def test_a_closed_end_is_an_error() -> None:
    ends = os.pipe()
    os.close(ends[1])
    with pytest.raises(ChannelClosedError):
        Channel(ends[0], os.dup(ends[0])).receive()
    ends = os.pipe()
    os.close(ends[0])
    with pytest.raises(ChannelClosedError):
        Channel(os.dup(ends[1]), ends[1]).send({})


@pytest.mark.parametrize(
    "data",
    [
        b"garbage" * 10,
        PREFIX.pack(b"HRC0", 2, 0) + b"{}",
        PREFIX.pack(MAGIC, (16 << 20) + 1, 0),
        PREFIX.pack(MAGIC, 2, 2 << 20) + b"{}",
        PREFIX.pack(MAGIC, 2, 0) + b"{a",
        PREFIX.pack(MAGIC, 2, 0) + b"\xff\xff",
        PREFIX.pack(MAGIC, 2, 0) + b"[]",
        PREFIX.pack(MAGIC, 100_000, 0) + b"[" * 100_000,
    ],
    ids=["text", "magic", "long header", "long body", "json", "utf-8", "list", "nested"],
)
def test_what_is_not_a_message_is_an_error(pipe: Channel, data: bytes) -> None:
    protocol.widen_pipe(pipe.write_fd)
    assert os.write(pipe.write_fd, data) == len(data)
    with pytest.raises(GarbageError):
        pipe.receive()


def test_what_is_not_a_table_is_an_error() -> None:
    stream = protocol.stream_of(TABLE).to_pybytes()
    for body in (b"", b"text", stream[: len(stream) // 2], stream.replace(b"text", b"t\xa2xt")):
        with pytest.raises(GarbageError):
            Message({}, body).table()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("table", [TABLE, pa.table({"x": TABLE["text"].dictionary_encode()})], ids=["plain", "dictionary"])
def test_what_would_expand_is_an_error(table: pa.Table, codec: str) -> None:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    assert Message({}, protocol.stream_of(table)).table().equals(table)
    with pytest.raises(GarbageError, match="compressed"):
        Message({}, stream.getvalue()).table()


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_are_a_table_or_an_error(changes: list[tuple[int, int]]) -> None:
    body = bytearray(protocol.stream_of(TABLE.set_column(0, "x", TABLE["text"].dictionary_encode())).to_pybytes())
    for position, value in changes:
        body[position % len(body)] = value
    with suppress(GarbageError):
        Message({}, bytes(body)).table()


def test_parameters_survive_the_way() -> None:
    parameters = Parameters([Type.INT64, Type.TEXT], {"k": "ä"}, ["s", "t"], "ns")
    decoded = decode_parameters(json.loads(json.dumps(encode_parameters(parameters))))
    assert encode_parameters(decoded) == encode_parameters(parameters)
    assert decoded.get_data_types() == [Type.INT64, Type.TEXT]
    assert decoded.ticks_per_second == 1_000_000_000
