"""The source of an IoTDB server, with a real server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.errors import ConfigurationError, OperationalError
from headrace.model.positions import Offsets
from headrace.model.tree_types import type_name
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DEVICE, TIME, InsertEvent
from headrace.pipes.iotdb import reader
from headrace.pipes.iotdb.reader import SessionSource
from headrace.pipes.iotdb.session_options import read_options
from headrace.pipes.plugins import SourceBatch
from tests.pipes.iotdb_results import execute
from tests.pipes.thrift import unlimited
from tests.support.breaking_proxy import breaking_proxy
from tests.support.iotdb_server import Server

Points = dict[tuple[str, str, int], Any]
pytestmark = pytest.mark.timeout(600)
POLL = {"source.poll-interval-ms": "1"}


def make_source(server: Server, path: str, **options: str) -> SessionSource:
    address = {"source.host": "127.0.0.1", "source.port": str(server.port), "source.path": path}
    return SessionSource(read_options(PipeAttributes({**address, **POLL, **options}), "UTC"), unlimited())


def points(batches: Sequence[SourceBatch]) -> Points:
    """Return the points of batches: a value by device, measurement and time."""
    found: Points = {}
    for event in (event for batch in batches for event in batch.events):
        assert isinstance(event, InsertEvent)
        data = event.data
        keys = list(zip(data.rows[DEVICE].to_pylist(), data.rows[TIME].to_pylist(), strict=True))
        for name, measurement in data.columns.items():
            for (device, time), value in zip(keys, data.rows[name].to_pylist(), strict=True):
                if value is not None:
                    found[device, measurement.name, time] = value
    return found


def read_all(source: SessionSource, offsets: Offsets) -> tuple[list[SourceBatch], Offsets]:
    batches = []
    while (batch := source.read(offsets)) is not None:
        batches.append(batch)
        offsets = batch.offsets
    return batches, offsets


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MIN_BATCH_ROWS", 3)
    monkeypatch.setattr(reader, "MAX_BATCH_ROWS", 3)


def test_all_types_devices_and_nulls_are_read(iotdb_server: Server) -> None:
    types = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "TEXT", "TIMESTAMP", "DATE", "BLOB", "STRING")
    series = ", ".join(f"m_{name.lower()} {name}" for name in types)
    execute(
        iotdb_server,
        "CREATE DATABASE root.all",
        f"CREATE ALIGNED TIMESERIES root.all.`a b`({series})",
        f"INSERT INTO root.all.`a b`(time, {', '.join(f'm_{name.lower()}' for name in types)})"
        " ALIGNED VALUES (1, true, -5, 9223372036854775807, 1.5, -0.25, 'péñ', 17, '2024-02-29', X'00ff', '')",
        "INSERT INTO root.all.`a b`(time, m_int32) ALIGNED VALUES (2, 6)",
        "CREATE TIMESERIES root.all.x.m_int32 DOUBLE",
        "INSERT INTO root.all.x(time, m_int32) VALUES (-7, 2.5)",
    )
    source = make_source(iotdb_server, "root.all.**")
    batches, offsets = read_all(source, {})
    source.close()
    device = "root.all.`a b`"
    first = [True, -5, 2**63 - 1, 1.5, -0.25, "péñ", 17, dt.date(2024, 2, 29), b"\x00\xff", ""]
    expected: Points = {(device, f"m_{name.lower()}", 1): value for name, value in zip(types, first, strict=True)}
    assert points(batches) == expected | {(device, "m_int32", 2): 6, ("root.all.x", "m_int32", -7): 2.5}
    assert offsets == {device: 2, "root.all.x": -7}
    events = [event for batch in batches for event in batch.events if isinstance(event, InsertEvent)]
    assert {path for event in events for path in event.data.aligned} == {device}
    assert {event.data.database for event in events} == {"root.all"}
    named = {measurement.name: type_name(measurement.type) for event in events for measurement in event.data.columns.values()}
    assert set(named.values()) >= set(types) - {"INT32"}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("overlap", ["0", "2", "100"])
def test_history_is_read_in_batches_and_then_what_follows(iotdb_server: Server, overlap: str) -> None:
    database = f"root.follow{overlap}"
    devices = [f"{database}.d{number}" for number in range(4)]
    expected: Points = {}

    def insert(times: range) -> None:
        execute(iotdb_server, *(f"INSERT INTO {device}(time, v) VALUES ({time}, {time})" for device in devices for time in times))
        expected.update({(device, "v", time): float(time) for device in devices for time in times})

    insert(range(7))
    source = make_source(iotdb_server, f"{database}.**", **{"source.overlap-ms": overlap})
    batches, offsets = read_all(source, {})
    assert len(batches) > 8
    assert all(event.data.rows.num_rows <= 3 for batch in batches for event in batch.events if isinstance(event, InsertEvent))
    assert points(batches) == expected
    devices.append(f"{database}.new")
    insert(range(7, 15))
    assert source.has_news(offsets)
    later, offsets = read_all(source, offsets)
    assert points([*batches, *later]) == expected
    if overlap == "0":
        assert points(later) == {key: value for key, value in expected.items() if key[2] >= 7}
    assert read_all(source, offsets) == ([], offsets)
    source.close()


def test_late_rows_need_an_overlap(iotdb_server: Server) -> None:
    insert = "INSERT INTO root.late.d(time, v) VALUES ({0}, {0})"
    execute(iotdb_server, insert.format(100))
    sources = [make_source(iotdb_server, "root.late.**", **{"source.overlap-ms": overlap}) for overlap in ("0", "50")]
    offsets = [read_all(source, {})[1] for source in sources]
    execute(iotdb_server, insert.format(60), insert.format(20), insert.format(101))
    found = [sorted(key[2] for key in points(read_all(*pair)[0])) for pair in zip(sources, offsets, strict=True)]
    assert found == [[101], [60, 100, 101]]


@pytest.mark.usefixtures("small_batches")
def test_a_batch_is_the_same_again(iotdb_server: Server) -> None:
    statements = [f"INSERT INTO root.again.d{time % 3}(time, v) VALUES ({time}, {time})" for time in range(20)]
    execute(iotdb_server, *statements)
    source = make_source(iotdb_server, "root.again.**")
    offsets: Offsets = {}
    count = 0
    while (batch := source.read(offsets)) is not None:
        other = make_source(iotdb_server, "root.again.**")
        execute(iotdb_server, f"INSERT INTO root.again.d0(time, v) VALUES ({1000 + count}, 1)")
        repeated = other.read(offsets, batch.offsets)
        assert repeated is not None
        assert repeated.offsets == batch.offsets
        assert points([repeated]) == points([batch])
        assert other.read(batch.offsets) is not None
        other.close()
        offsets, count = batch.offsets, count + 1
        if count > 30:
            break
    source.close()


def test_a_snapshot_ends_and_bounds_are_inclusive(iotdb_server: Server) -> None:
    execute(iotdb_server, *(f"INSERT INTO root.snap.d(time, v, w) VALUES ({time}, {time}, 1)" for time in range(10)))
    bounds = {"source.start-time": "1970-01-01T00:00:00.003Z", "source.end-time": "5", "source.mode": "snapshot"}
    source = make_source(iotdb_server, "root.snap.*.v", **bounds)
    assert not source.has_ended({})
    batches, offsets = read_all(source, {})
    assert sorted(points(batches)) == [("root.snap.d", "v", 3), ("root.snap.d", "v", 4), ("root.snap.d", "v", 5)]
    execute(iotdb_server, "INSERT INTO root.snap.d(time, v) VALUES (4, 40)")
    assert source.has_ended(offsets)
    assert source.pending(offsets) == (0, None)
    source.close()


def test_nothing_there_is_no_error(iotdb_server: Server) -> None:
    source = make_source(iotdb_server, "root.nothing.**")
    assert source.read({}) is None
    execute(iotdb_server, "CREATE TIMESERIES root.nothing.d.v DOUBLE")
    assert source.read({}) is None
    execute(iotdb_server, "INSERT INTO root.nothing.d(time, v) VALUES (1, 1)")
    assert points(read_all(source, {})[0]) == {("root.nothing.d", "v", 1): 1.0}
    source.close()


def test_deleted_rows_do_not_keep_the_source_busy(iotdb_server: Server) -> None:
    execute(iotdb_server, *(f"INSERT INTO root.gone.d(time, v) VALUES ({time}, 1)" for time in (1, 2)))
    source = make_source(iotdb_server, "root.gone.**")
    source._nodes.run(source._poll)
    execute(iotdb_server, "DELETE FROM root.gone.d.v WHERE time > 0")
    assert source.read({}) is None
    source.close()


def test_a_broken_connection_is_opened_again(iotdb_server: Server) -> None:
    execute(iotdb_server, *(f"INSERT INTO root.cut.d(time, v) VALUES ({time}, 1)" for time in range(2000)))
    with breaking_proxy(iotdb_server.port) as proxy:
        urls = {"source.node-urls": f"127.0.0.1:{proxy.port}", **POLL, "source.path": "root.cut.**"}
        source = SessionSource(read_options(PipeAttributes(urls), "UTC"), unlimited())
        source.read({})
        proxy.cut(answer_bytes=5_000)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source, "_checked", {})
            batches, _ = read_all(source, {})
        assert proxy.broken == 1
        assert len(points(batches)) == 2000
        source.close()
    with pytest.raises(OperationalError, match="are not available"):
        source.read({})


def test_wrong_passwords_are_terminal_and_not_shown(iotdb_server: Server) -> None:
    source = make_source(iotdb_server, "root.**", **{"source.password": "hidden123"})
    with pytest.raises(ConfigurationError, match="801") as caught:
        source.read({})
    assert "hidden123" not in f"{caught.value!s}{caught.value.hint}"
