"""The sink to IoTDB, with a real server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import ConfigurationError, IntegrityError, OperationalError
from headrace.model.time import Precision
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import DOUBLE, DataType
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, InsertEvent, Measurement, StatementEvent
from headrace.pipes.iotdb.receiver import ThriftSink
from headrace.pipes.plugins import Delivery
from headrace.runtime.processes import find_free_port
from tests.pipes.iotdb_results import execute, rows
from tests.pipes.thrift import sink
from tests.support.iotdb_server import Server

LIMIT_S = 600
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, None, False]),
    "INT32": (pa.int32(), [-(2**31), 7, None]),
    "INT64": (pa.int64(), [None, 2**63 - 1, -1]),
    "FLOAT": (pa.float32(), [1.5, -0.25, None]),
    "DOUBLE": (pa.float64(), [None, 1e300, -1e-300]),
    "TEXT": (pa.string(), ["", "péñ", None]),
    "TIMESTAMP": (pa.int64(), [1, None, -1]),
    "DATE": (pa.date32(), [dt.date(1969, 12, 31), None, dt.date(9999, 12, 31)]),
    "BLOB": (pa.binary(), [b"\x00\xff", b"", None]),
    "STRING": (pa.string(), [None, "x" * 300, "y"]),
}
pytestmark = pytest.mark.timeout(LIMIT_S)


def make_sink(server: Server, **options: str) -> ThriftSink:
    return sink(PipeAttributes({"sink.ip": "127.0.0.1", "sink.port": str(server.port), **options}))


@pytest.fixture
def thrift(iotdb_server: Server) -> Iterator[ThriftSink]:
    one = make_sink(iotdb_server)
    yield one
    one.close()


def device_rows(
    times: list[int],
    devices: list[str],
    columns: dict[str, tuple[DataType, pa.DataType, list[Any]]],
    *,
    precision: Precision = Precision.MILLISECOND,
    aligned: frozenset[str] = frozenset(),
) -> DeviceRows:
    arrays = {name: pa.array(values, arrow) for name, (_, arrow, values) in columns.items()}
    table = pa.table({"time": pa.array(times, pa.int64()), "device": pa.array(devices), **arrays})
    measurements = {name: Measurement(name, type_) for name, (type_, _, _) in columns.items()}
    return DeviceRows(table, measurements, precision, "root.x", aligned)


def doubles(times: list[int], devices: list[str], values: list[float | None], **options: Any) -> DeviceRows:
    return device_rows(times, devices, {"v": (DOUBLE, pa.float64(), values)}, **options)


def send(one: ThriftSink, *events: Event, batch: int = 0) -> None:
    one.transfer(Delivery("pipe", batch, events))


@pytest.mark.parametrize("is_aligned", [False, True])
def test_values_of_all_types_arrive_with_nulls(iotdb_server: Server, thrift: ThriftSink, is_aligned: bool) -> None:
    device = f"root.types.d{is_aligned:d}"
    columns = {f"m_{name.lower()}": (TREE_TYPES[name], arrow, values) for name, (arrow, values) in TYPES.items()}
    aligned = frozenset({device} if is_aligned else ())
    send(thrift, InsertEvent(device_rows([1, 2, 3], [device] * 3, columns, aligned=aligned)))
    names = ", ".join(columns)
    expected = {name: [*values] for name, (_, values) in TYPES.items()}
    expected["DATE"] = [19691231, None, 99991231]
    assert rows(iotdb_server, f"SELECT {names} FROM {device}") == list(zip([1, 2, 3], *expected.values(), strict=True))
    types = dict(zip(columns, TYPES, strict=True))
    shown = rows(iotdb_server, f"SHOW TIMESERIES {device}.**")
    assert {row[0].rpartition(".")[2]: row[3] for row in shown} == types
    assert rows(iotdb_server, f"SHOW DEVICES {device}")[0][1] == str(is_aligned).lower()


def test_devices_get_their_own_measurements_only(iotdb_server: Server, thrift: ThriftSink) -> None:
    columns: dict[str, tuple[DataType, pa.DataType, list[Any]]] = {
        "a": (DOUBLE, pa.float64(), [1.0, None, 3.0]),
        "b": (TREE_TYPES["INT32"], pa.int32(), [None, 2, None]),
    }
    send(thrift, InsertEvent(device_rows([2, 1, 1], ["root.own.x", "root.own.y", "root.own.x"], columns)))
    assert rows(iotdb_server, "SELECT a FROM root.own.x") == [(1, 3.0), (2, 1.0)]
    assert sorted(row[0] for row in rows(iotdb_server, "SHOW TIMESERIES root.own.**")) == ["root.own.x.a", "root.own.y.b"]


def test_the_last_value_counts_and_null_leaves_what_is_there(iotdb_server: Server, thrift: ThriftSink) -> None:
    device = "root.last.d"
    send(thrift, InsertEvent(doubles([1, 1, 2, 1], [device] * 4, [1.0, 2.0, 5.0, None])))
    send(thrift, InsertEvent(doubles([2, 3], [device] * 2, [None, 6.0])))
    assert rows(iotdb_server, f"SELECT v FROM {device}") == [(1, 2.0), (2, 5.0), (3, 6.0)]


def test_quoted_nodes_and_times_of_other_units_arrive(iotdb_server: Server, thrift: ThriftSink) -> None:
    data = doubles([-1_500, 2_000_999], ["root.q.`a b`.`1`"] * 2, [1.0, 2.0], precision=Precision.MICROSECOND)
    send(thrift, InsertEvent(data))
    assert rows(iotdb_server, "SELECT v FROM root.q.`a b`.`1`") == [(-2, 1.0), (2000, 2.0)]


def test_events_take_effect_in_order_also_the_second_time(iotdb_server: Server, thrift: ThriftSink) -> None:
    device = "root.order.d"
    events: list[Event] = [
        StatementEvent("CREATE DATABASE root.order", "schema.database.create"),
        StatementEvent(f"CREATE TIMESERIES {device}.v DOUBLE ENCODING=GORILLA", "schema.timeseries.ordinary.create"),
        StatementEvent("CREATE USER ordered 'secret1'", "auth.user.create"),
        InsertEvent(doubles([1, 2, 3, 4, 9], [device] * 5, [1.0, 2.0, 3.0, 4.0, 9.0])),
        DeleteEvent(doubles([1, 2, 4], [device] * 3, [1.0, 2.0, 4.0])),
        InsertEvent(doubles([2], [device], [20.0])),
    ]
    for batch in (1, 1):
        send(thrift, *events, batch=batch)
        assert rows(iotdb_server, f"SELECT v FROM {device}") == [(2, 20.0), (3, 3.0), (9, 9.0)]
    dropped = [
        StatementEvent("DROP USER ordered", "auth.user.drop"),
        StatementEvent(f"DELETE TIMESERIES {device}.v", "schema.timeseries.ordinary.drop"),
        StatementEvent("DELETE DATABASE root.order", "schema.database.drop"),
    ]
    for batch in (2, 2):
        send(thrift, *dropped, batch=batch)
    assert rows(iotdb_server, "SHOW DATABASES root.order") == []


@pytest.mark.parametrize(
    ("ranges", "left"), [(((1, 20),), [30]), (((-(2**63), 2**63 - 1),), []), (((5, 12), (25, 2**63 - 1)), [20])]
)
def test_deleted_ranges_go_with_all_their_points(
    iotdb_server: Server, thrift: ThriftSink, ranges: tuple[tuple[int, int], ...], left: list[int]
) -> None:
    device = f"root.ranges.d{len(left)}_{len(ranges)}"
    times = [10, 20, 30]
    deleted = [time for time in times if time not in left]
    send(thrift, InsertEvent(doubles(times, [device] * 3, [1.0, 2.0, 3.0])))
    send(thrift, DeleteEvent(doubles(deleted, [device] * len(deleted), [1.0] * len(deleted)), ranges))
    assert [row[0] for row in rows(iotdb_server, f"SELECT v FROM {device}")] == left


def test_an_invalid_statement_is_terminal(thrift: ThriftSink) -> None:
    with pytest.raises(IntegrityError, match="700"):
        send(thrift, StatementEvent("CREATE NOTHING", "schema.database.create"))


@pytest.mark.parametrize("compressor", ["snappy", "gzip", "lz4", "zstd", "lzma2", "lz4, zstd"])
def test_compressed_requests_arrive(iotdb_server: Server, compressor: str) -> None:
    device = f"root.comp.`{compressor}`"
    one = make_sink(iotdb_server, **{"sink.compressor": compressor})
    send(one, InsertEvent(doubles(list(range(2000)), [device] * 2000, [float(value) for value in range(2000)])))
    one.close()
    assert rows(iotdb_server, f"SELECT count(v), sum(v) FROM {device}") == [(2000, 1999000.0)]


def test_requests_are_bounded(iotdb_server: Server) -> None:
    one = make_sink(iotdb_server, **{"sink.batch.size-bytes": "20000"})
    devices = [f"root.small.d{number % 50}" for number in range(10_000)]
    send(one, InsertEvent(doubles(list(range(10_000)), devices, [1.0] * 10_000)))
    one.close()
    counted = rows(iotdb_server, "SELECT count(v) FROM root.small.*")[0]
    assert sum(counted) == 10_000


def test_values_of_another_type_are_converted_by_the_receiver(iotdb_server: Server, thrift: ThriftSink) -> None:
    execute(iotdb_server, "CREATE TIMESERIES root.mix.d.v INT32")
    send(thrift, InsertEvent(doubles([1, 2], ["root.mix.d", "root.mix.e"], [1.0, 2.0])))
    assert rows(iotdb_server, "SELECT v FROM root.mix.d") == [(1, 1)]
    assert rows(iotdb_server, "SELECT v FROM root.mix.e") == [(2, 2.0)]


def test_without_conversion_another_type_is_a_conflict(iotdb_server: Server) -> None:
    execute(iotdb_server, "CREATE TIMESERIES root.conf.d.v BOOLEAN")
    event = InsertEvent(doubles([1, 2], ["root.conf.d", "root.conf.e"], [1.0, 2.0]))
    unconverted = {"sink.exception.data.convert-on-type-mismatch": "false"}
    for seconds, error in (("60", OperationalError), ("0", IntegrityError)):
        strict = make_sink(iotdb_server, **unconverted, **{"sink.exception.conflict.retry-max-time-seconds": seconds})
        with pytest.raises(error, match="registered type BOOLEAN"):
            send(strict, event)
        strict.close()
    lenient = make_sink(iotdb_server, **unconverted, **{"sink.exception.conflict.resolve-strategy": "ignore"})
    send(lenient, event)
    lenient.close()
    assert rows(iotdb_server, "SELECT v FROM root.conf.d") == []
    assert rows(iotdb_server, "SELECT v FROM root.conf.e") == [(2, 2.0)]


def test_other_nodes_take_over(iotdb_server: Server) -> None:
    urls = f"127.0.0.1:{find_free_port()},127.0.0.1:{iotdb_server.port}"
    for strategy in ("round-robin", "random", "priority"):
        one = sink(PipeAttributes({"node-urls": urls, "load-balance-strategy": strategy}))
        one.handshake()
        for number in range(4):
            send(one, InsertEvent(doubles([number], [f"root.nodes.`{strategy}`"], [1.0])))
        one.heartbeat()
        one.close()
        assert rows(iotdb_server, f"SELECT count(v) FROM root.nodes.`{strategy}`") == [(4,)]


def test_unreachable_nodes_are_named() -> None:
    ports = find_free_port(), find_free_port()
    one = sink(PipeAttributes({"node-urls": ",".join(f"127.0.0.1:{port}" for port in ports)}))
    expected = rf"All target servers \[127.0.0.1:{ports[0]}, 127.0.0.1:{ports[1]}\] are not available"
    for action in (one.handshake, one.heartbeat):
        with pytest.raises(OperationalError, match=expected):
            action()


def test_wrong_passwords_are_terminal_and_not_shown(iotdb_server: Server) -> None:
    one = make_sink(iotdb_server, **{"sink.password": "hidden123"})
    with pytest.raises(ConfigurationError, match="801") as caught:
        one.handshake()
    assert "hidden123" not in f"{caught.value!s} {caught.value!r} {one._options!r}"


def test_missing_privileges_are_terminal(iotdb_server: Server) -> None:
    execute(iotdb_server, "CREATE USER reader 'secret1'")
    one = make_sink(iotdb_server, **{"sink.user": "reader", "sink.password": "secret1"})
    with pytest.raises(ConfigurationError, match="803"):
        send(one, InsertEvent(doubles([1], ["root.denied.d"], [1.0])))
    one.close()


def test_a_killed_receiver_is_transient_and_misses_nothing_afterwards(iotdb_server: Server, thrift: ThriftSink) -> None:
    device = "root.killed.d"
    send(thrift, InsertEvent(doubles([1, 2], [device] * 2, [1.0, 2.0])))
    iotdb_server.kill()
    event = InsertEvent(doubles([3], [device], [3.0]))
    with pytest.raises(OperationalError, match="are not available"):
        send(thrift, event)
    iotdb_server.restart()
    send(thrift, event)
    assert rows(iotdb_server, f"SELECT v FROM {device}") == [(1, 1.0), (2, 2.0), (3, 3.0)]
