"""What is looked at of the frames that clients of Flight send, however they are cut: what is refused becomes zeros."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.doors.flight import messages
from headrace.doors.flight.messages import RefusedError
from headrace.doors.flight.requests import DATA, END_STREAM, HEADERS, PADDED, PREFACE, RESET, NotFlightError, Requests

ROWS = pa.record_batch({"n": [0] * 1_000, "s": pa.array(["a", "b"] * 500).dictionary_encode()})
COMMAND = b"\x12\x05hello"
"""A descriptor with a command, in the same field as the metadata of a batch."""


class Unlimited:
    def __init__(self, size: int = 1 << 40) -> None:
        self.free = size

    @contextmanager
    def __call__(self, size: int) -> Iterator[None]:
        if size > self.free:
            raise RefusedError("too many rows are sent at the same time", "try again later")
        self.free -= size
        try:
            yield
        finally:
            self.free += size


def fail(error: RefusedError) -> None:
    pytest.fail(error.message)


def frame(kind: int, stream: int, content: bytes = b"", flags: int = 0) -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


def prefixed(message: bytes, *, is_packed: bool = False) -> bytes:
    return struct.pack(">BI", is_packed, len(message)) + message


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def batches(compression: str | None = None) -> list[tuple[bytes, bytes]]:
    """Return metadata and bodies of the messages of a stream: a schema, a dictionary and a batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(ROWS)
    return [(one.metadata.to_pybytes(), one.body.to_pybytes()) for one in pa.ipc.MessageReader.open_stream(sink.getvalue())]


def flight_data(metadata: bytes, body: bytes, *, body_first: bool = False) -> bytes:
    fields = [field(2, metadata), field(3, b"note"), b"\x50\x01" + b"\x2d" + bytes(4), field(1000, body)]
    return b"".join(reversed(fields) if body_first else fields)


def fed(data: bytes, cuts: Sequence[int], requests: Requests) -> bytes:
    """Return what is sent on of data that comes in pieces."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return b"".join(requests.feed(data[start:end]) for start, end in pairwise(edges))


def conversation(calls: dict[int, bytes], size: int) -> bytes:
    """Return a connection with calls whose frames alternate."""
    frames = [frame(HEADERS, stream, b"headers") for stream in calls] + [frame(4, 0), frame(6, 0, bytes(8))]
    longest = max(map(len, calls.values()))
    for start in range(0, longest, size):
        for stream, content in calls.items():
            piece = content[start : start + size]
            is_last = start < len(content) <= start + size
            if piece:
                padded = bytes([3]) + piece + bytes(3)
                frames.append(frame(DATA, stream, padded, PADDED | (END_STREAM if is_last else 0)))
    return PREFACE + b"".join(frames)


@given(st.lists(st.integers(0, 100_000), max_size=40), st.integers(1, 4_000))
def test_what_is_allowed_is_sent_on_as_it_is(cuts: list[int], size: int) -> None:
    requests = Requests(Unlimited(), fail)
    rows = b"".join(prefixed(flight_data(*one)) for one in batches())
    data = conversation({1: prefixed(COMMAND), 3: rows, 5: rows + prefixed(b"")}, size)
    assert fed(data, cuts, requests) == data


@given(st.lists(st.integers(0, 100_000), max_size=40), st.integers(1, 4_000), st.booleans(), st.sampled_from(["lz4", "zstd"]))
def test_of_a_compressed_batch_no_metadata_is_sent_on(cuts: list[int], size: int, body_first: bool, codec: str) -> None:
    refused: list[RefusedError] = []
    requests = Requests(Unlimited(), refused.append)
    honest = prefixed(COMMAND)
    schema, dictionary, rows = batches(codec)
    messages_ = [schema, dictionary, rows]
    hostile = b"".join(prefixed(flight_data(*one, body_first=body_first)) for one in messages_)
    data = conversation({1: hostile, 3: honest}, size)
    sent = fed(data, cuts, requests)
    assert len(sent) == len(data)
    assert refused[0].message == "record batches are compressed"
    content = content_of(sent, 1)
    first = len(prefixed(flight_data(*schema)))
    assert content[:first] == hostile[:first]
    start = hostile.index(dictionary[0])
    assert content == hostile[:start] + bytes(len(hostile) - start)
    assert content_of(sent, 3) == honest


def content_of(data: bytes, stream: int) -> bytes:
    """Return what the frames of a call have, without padding."""
    at, content = len(PREFACE), b""
    while at < len(data):
        size, kind, flags, own = (
            int.from_bytes(data[at : at + 3]),
            data[at + 3],
            data[at + 4],
            int.from_bytes(data[at + 5 : at + 9]),
        )
        if kind == DATA and own == stream:
            piece = data[at + 9 : at + 9 + size]
            content += piece[1 : len(piece) - piece[0]] if flags & PADDED else piece
        at += 9 + size
    return content


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (prefixed(COMMAND, is_packed=True), "messages are compressed"),
        (struct.pack(">BI", 0, messages.MAX_MESSAGE_BYTES + 1), "more than 256 MiB"),
        (struct.pack(">BI", 0, 2 << 20), "too many rows"),
        (prefixed(b"\x12\x06hello"), "malformed"),
        (prefixed(b"\x13\x05hello"), "malformed"),
        (prefixed(b"\xff" * 12), "malformed"),
        (struct.pack(">BI", 0, 40 << 20) + b"\x12" + varint(30 << 20), "too many rows"),
        (prefixed(field(2, bytes(40) + b"ARROW:experimental_compression")), "record batches are compressed"),
    ],
)
def test_what_is_no_message_for_arrow_is_refused(message: bytes, reason: str) -> None:
    refused: list[RefusedError] = []
    requests = Requests(Unlimited(1 << 20), refused.append)
    data = PREFACE + frame(HEADERS, 1) + frame(DATA, 1, message) + frame(DATA, 1, message)
    sent = requests.feed(data)
    assert len(sent) == len(data)
    assert reason in refused[0].message
    assert sent.endswith(frame(DATA, 1, bytes(len(message))))


def test_metadata_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_METADATA_BYTES", 100)
    refused: list[RefusedError] = []
    requests = Requests(Unlimited(), refused.append)
    requests.feed(PREFACE + frame(HEADERS, 1) + frame(DATA, 1, prefixed(field(2, bytes(101)))))
    assert "a statement, or the metadata" in refused[0].message


def test_memory_of_large_messages_is_given_back() -> None:
    memory = Unlimited(3 << 20)
    requests = Requests(memory, fail)
    large = prefixed(field(1000, bytes(2 << 20)))
    start = PREFACE + frame(HEADERS, 1) + frame(DATA, 1, large)
    requests.feed(start)
    assert memory.free == 3 << 20
    for end in (frame(RESET, 1, bytes(4)), b""):
        requests.feed(frame(HEADERS, 1) + frame(DATA, 1, large[:-1]))
        assert memory.free < 1 << 20
        requests.feed(end)
    requests.close()
    assert memory.free == 3 << 20


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", PREFACE + frame(DATA, 1, b"\x05ab", PADDED)])
def test_what_is_not_http_2_ends_the_connection(data: bytes) -> None:
    with pytest.raises(NotFlightError):
        Requests(Unlimited(), fail).feed(data)


def test_many_incomplete_calls_end_the_connection_but_ended_ones_do_not() -> None:
    requests = Requests(Unlimited(), fail)
    requests.feed(PREFACE)
    for stream in range(1, 6_001, 2):
        requests.feed(frame(HEADERS, stream) + frame(DATA, stream, prefixed(COMMAND)))
    requests = Requests(Unlimited(), fail)
    requests.feed(PREFACE)
    incomplete = (frame(HEADERS, stream) + frame(DATA, stream, prefixed(COMMAND)[:3]) for stream in range(1, 6_001, 2))
    with pytest.raises(NotFlightError, match="incomplete"):
        requests.feed(b"".join(incomplete))


def test_bytes_that_wait_for_others_have_a_bound() -> None:
    requests = Requests(Unlimited(), fail)
    requests.feed(PREFACE + frame(HEADERS, 1) + frame(DATA, 1, prefixed(field(2, bytes(99)))[:-1]))
    with pytest.raises(NotFlightError, match="wait"):
        requests.feed(frame(4, 0, bytes(1 << 20)) * 40)
