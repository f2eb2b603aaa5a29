"""The requests to IoTDB: how tablets are divided among them, how they are compressed, and how fast they are sent."""

from __future__ import annotations

import gzip
import lzma
import struct

import pyarrow as pa
import pytest

from headrace.pipes.iotdb import requests
from headrace.pipes.iotdb.messages import Status, SubStatus
from headrace.pipes.iotdb.receiver import FailurePolicy, Pace
from headrace.pipes.iotdb.statuses import failed_parts, is_repeated


def test_requests_have_about_as_many_bytes_as_they_may() -> None:
    made = list(requests.batches([b"x" * 4, b"y" * 4, b"z" * 9, b"w"], 8))
    assert [request.tablets for request in made] == [2, 1, 1]
    assert made[0] == requests.Request(6, struct.pack(">iii", 0, 0, 2) + b"xxxxyyyy", 2)
    assert list(requests.batches([], 8)) == []


def test_compression_wraps_a_request_as_often_as_there_are_methods() -> None:
    request = requests.tablet_batch([b"content" * 100])
    compressed = requests.Compressor(["gzip", "lzma2"], 3).apply(request)
    assert (compressed.kind, compressed.tablets) == (300, 1)
    count, first, first_size, second, second_size = struct.unpack_from(">bbibi", compressed.body)
    assert (count, first, second) == (2, 1, 4)
    inner = lzma.decompress(compressed.body[11:])
    assert len(inner) == second_size
    content = gzip.decompress(inner)
    assert len(content) == first_size
    assert content == struct.pack(">bh", 1, 6) + request.body
    assert requests.Compressor([], 3).apply(request) is request


@pytest.mark.parametrize("level", [-5, 1, 22])
def test_zstd_has_levels(level: int) -> None:
    request = requests.tablet_batch([bytes(1000)])
    body = requests.Compressor(["zstd"], level).apply(request).body
    _, _, size = struct.unpack_from(">bbi", body)
    assert pa.Codec("zstd").decompress(body[6:], size, asbytes=True)[3:] == request.body


def test_requests_wait_for_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = [100.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("headrace.pipes.iotdb.receiver.time.monotonic", lambda: now[0])
    monkeypatch.setattr("headrace.pipes.iotdb.receiver.time.sleep", sleep)
    limited = Pace(10)
    for size in (20, 5, 30):
        limited.take(size)
    now[0] += 100
    limited.take(1)
    assert waits == [0, 2, 0.5, 0]
    Pace(-1).take(1 << 40)
    assert len(waits) == 4


def test_data_beyond_a_ttl_has_arrived() -> None:
    FailurePolicy(False, 60, -1).handle("pipe", "node", "write", Status(code=1809, message="out of TTL"))


def test_the_parts_that_failed_are_found() -> None:
    parts = [SubStatus(code=200), SubStatus(code=507, message="x")]
    assert [part.code for part in failed_parts(Status(code=302, subStatus=parts))] == [507]
    assert failed_parts(Status(code=400, subStatus=parts)) == []
    assert [part.code for part in failed_parts(Status(code=700))] == [700]


@pytest.mark.parametrize(
    ("category", "code", "text", "expected"),
    [
        ("schema.database.create", 501, "", True),
        ("schema.database.create", 500, "", True),  # it was dropped later in the batch that comes again
        ("schema.database.create", 502, "", False),
        ("schema.database.drop", 500, "", True),
        ("auth.role.revoke", 811, "", True),
        ("schema.timeseries.ordinary.alter", 507, "tag a already exists", True),
        ("schema.timeseries.ordinary.alter", 507, "no", False),
    ],
)
def test_a_statement_that_has_had_its_effect_is_recognized(category: str, code: int, text: str, expected: bool) -> None:
    assert is_repeated(category, Status(code=code, message=text)) is expected
