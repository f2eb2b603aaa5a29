"""Rows of devices as raw tablets, read again as a receiver reads them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataError
from headrace.model.time import Precision
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import DOUBLE, DataType, TypeKind
from headrace.pipes.events import DeleteEvent, DeviceRows, Measurement
from headrace.pipes.iotdb import tablets
from headrace.pipes.iotdb.receiver import delete_statements
from headrace.pipes.iotdb.tablets import encode_tablets
from tests.pipes.raw_tablets import RawTablet, read_tablets

MS, US, NS = Precision.MILLISECOND, Precision.MICROSECOND, Precision.NANOSECOND
SMALL = st.integers(0, 5)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "INT32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "INT64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "FLOAT": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "DOUBLE": (pa.float64(), st.floats(allow_nan=False)),
    "TEXT": (pa.string(), st.text()),
    "TIMESTAMP": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "DATE": (pa.date32(), st.dates(dt.date(1000, 1, 1))),
    "BLOB": (pa.binary(), st.binary()),
    "STRING": (pa.large_string(), st.text()),
}


def make_rows(
    times: list[int],
    devices: list[str],
    columns: dict[str, tuple[Measurement, pa.Array]],
    precision: Precision = MS,
    aligned: frozenset[str] = frozenset(),
) -> DeviceRows:
    arrays = {name: array for name, (_, array) in columns.items()}
    table = pa.table({"time": pa.array(times, pa.int64()), "device": pa.array(devices, pa.string()), **arrays})
    return DeviceRows(table, {name: measurement for name, (measurement, _) in columns.items()}, precision, "root.x", aligned)


def doubles(times: list[int], devices: list[str], values: list[float | None], precision: Precision = MS) -> DeviceRows:
    return make_rows(times, devices, {"v": (Measurement("v", DOUBLE), pa.array(values, pa.float64()))}, precision)


def read(data: DeviceRows, precision: Precision = MS, max_bytes: int = 1 << 20) -> list[RawTablet]:
    return read_tablets(list(encode_tablets(data, precision, max_bytes)))


@given(
    data=st.data(),
    names=st.lists(st.sampled_from(list(VALUES)), unique=True, min_size=1),
    max_bytes=st.sampled_from([1, 300, 1 << 20]),
)
def test_all_values_are_in_the_tablets_and_the_last_ones_count(data: st.DataObject, names: list[str], max_bytes: int) -> None:
    keys = data.draw(st.lists(st.tuples(SMALL, SMALL), max_size=20))
    drawn = {name: data.draw(st.lists(st.none() | VALUES[name][1], min_size=len(keys), max_size=len(keys))) for name in names}
    columns = {
        name: (Measurement(f"m_{name}", TREE_TYPES[name]), pa.array(values, VALUES[name][0])) for name, values in drawn.items()
    }
    rows = make_rows([key[0] for key in keys], [f"root.d{key[1]}" for key in keys], columns, aligned=frozenset({"root.d1"}))
    expected = {
        (f"root.d{device}", f"m_{name}", time): value
        for name, values in drawn.items()
        for (time, device), value in zip(keys, values, strict=True)
        if value is not None
    }
    actual: dict[tuple[str, str, int], Any] = {}
    for tablet in read(rows, max_bytes=max_bytes):
        assert tablet.times == sorted(set(tablet.times))
        assert tablet.is_aligned == (tablet.device == "root.d1")
        for name, values in tablet.values.items():
            assert any(value is not None for value in values)
            actual |= {
                (tablet.device, name, time): value for time, value in zip(tablet.times, values, strict=True) if value is not None
            }
    dates = {key: int(f"{value:%Y%m%d}") for key, value in expected.items() if key[1] == "m_DATE"}
    assert actual == expected | dates


def test_types_of_tables_become_the_smallest_type_that_has_all_values() -> None:
    kinds = {
        TypeKind.TINYINT: (pa.int8(), -128, 1),
        TypeKind.USMALLINT: (pa.uint16(), 65_535, 1),
        TypeKind.UINT: (pa.uint32(), 2**32 - 1, 2),
        TypeKind.UBIGINT: (pa.uint64(), 2**63 - 1, 2),
        TypeKind.DECIMAL: (pa.float64(), 1.5, 4),
        TypeKind.JSON: (pa.string(), "{}", 5),
    }
    columns = {
        kind.name: (Measurement(kind.name, DataType(kind)), pa.array([value], arrow)) for kind, (arrow, value, _) in kinds.items()
    }
    (tablet,) = read(make_rows([1], ["root.d"], columns))
    assert {name: (values[0], tablet.types[name]) for name, values in tablet.values.items()} == {
        kind.name: (value, code) for kind, (_, value, code) in kinds.items()
    }


def test_texts_may_be_encoded_by_a_dictionary() -> None:
    column = pa.array(["a", None, "a"]).dictionary_encode()
    (tablet,) = read(make_rows([1, 2, 3], ["root.d"] * 3, {"t": (Measurement("t", TREE_TYPES["TEXT"]), column)}))
    assert tablet.values == {"t": ["a", None, "a"]}


def test_a_number_that_iotdb_does_not_have_is_an_error() -> None:
    column = (Measurement("u", DataType(TypeKind.UBIGINT)), pa.array([2**64 - 1], pa.uint64()))
    with pytest.raises(DataError, match="out of range for INT64"):
        read(make_rows([1], ["root.d"], {"u": column}))


def test_a_measurement_in_two_types_is_in_two_tablets() -> None:
    columns = {
        "v": (Measurement("v", DOUBLE), pa.array([1.0, None])),
        "v_2": (Measurement("v", TREE_TYPES["INT32"]), pa.array([None, 2], pa.int32())),
        "w": (Measurement("w", DOUBLE), pa.array([3.0, 4.0])),
    }
    read_back = read(make_rows([1, 2], ["root.d"] * 2, columns))
    assert [tablet.values for tablet in read_back] == [{"v": [1.0, None], "w": [3.0, 4.0]}, {"v": [None, 2]}]
    assert len(read(make_rows([1, 1], ["root.d", "root.e"], columns))) == 2


@pytest.mark.parametrize(
    ("precision", "receiver", "times"),
    [(NS, MS, [-2, 1]), (US, MS, [-2, 1]), (MS, NS, [-1_999_999_000_000, 1_999_999_000_000]), (MS, MS, [-1_999_999, 1_999_999])],
)
def test_times_and_instants_are_in_the_unit_of_the_receiver(precision: Precision, receiver: Precision, times: list[int]) -> None:
    ticks = {NS: [-1_000_001, 1_999_999], US: [-1_001, 1_999]}.get(precision, [-1_999_999, 1_999_999])
    column = (Measurement("t", TREE_TYPES["TIMESTAMP"]), pa.array(ticks, pa.int64()))
    (tablet,) = read(make_rows(ticks, ["root.d"] * 2, {"t": column}, precision), receiver)
    assert (tablet.times, tablet.values["t"]) == (times, times)


def test_a_time_beyond_the_unit_of_the_receiver_is_an_error() -> None:
    with pytest.raises(DataError, match="times are in ns"):
        read(doubles([2**62], ["root.d"], [1.0]), NS)


def test_long_devices_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tablets, "MAX_TABLET_ROWS", 2)
    read_back = read(doubles([1, 2, 3, 4, 5, 1], ["root.d"] * 5 + ["root.e"], [1.0, 2.0, None, None, 5.0, 6.0]))
    assert [(tablet.device, tablet.times, tablet.values.get("v")) for tablet in read_back] == [
        ("root.d", [1, 2], [1.0, 2.0]),
        ("root.d", [5], [5.0]),
        ("root.e", [1], [6.0]),
    ]


def test_deleted_points_become_ranges_without_gaps() -> None:
    columns = {
        "a": (Measurement("a", DOUBLE), pa.array([1.0, 1.0, 1.0, None, 1.0, 1.0])),
        "b": (Measurement("`b c`", DOUBLE), pa.array([1.0, 1.0, 1.0, None, None, None])),
    }
    rows = make_rows([1, 3, 2, 4, 5, 1], ["root.d"] * 5 + ["root.e"], columns)
    assert list(delete_statements(DeleteEvent(rows), MS)) == [
        "DELETE FROM root.d.a, root.d.`b c` WHERE time >= 1 AND time <= 3",
        "DELETE FROM root.d.a WHERE time = 5",
        "DELETE FROM root.e.a WHERE time = 1",
    ]


def test_deleted_points_in_a_range_without_others_are_one_statement() -> None:
    columns = {
        "a": (Measurement("a", DOUBLE), pa.array([1.0, 1.0, 1.0, 1.0, None])),
        "b": (Measurement("b", DOUBLE), pa.array([1.0, None, 1.0, 1.0, 1.0])),
    }
    rows = make_rows([10, 30, 70, 500, 50], ["root.d"] * 4 + ["root.e"], columns)
    assert list(delete_statements(DeleteEvent(rows, ((1, 100), (400, 450))), MS)) == [
        "DELETE FROM root.d.a, root.d.b, root.e.b WHERE time >= 1 AND time <= 100",
        "DELETE FROM root.d.a, root.d.b WHERE time = 500",
    ]


@pytest.mark.parametrize(
    ("ranges", "condition"),
    [
        ((-(2**63), 2**63 - 1), ""),
        ((-(2**63), 4), " WHERE time <= 4000"),
        ((4, 2**63 - 1), " WHERE time >= 4000"),
        ((4, 4), " WHERE time = 4000"),
    ],
)
def test_a_range_without_a_bound_has_no_condition_in_any_unit(ranges: tuple[int, int], condition: str) -> None:
    rows = make_rows([4], ["root.d"], {"a": (Measurement("a", DOUBLE), pa.array([1.0]))})
    assert list(delete_statements(DeleteEvent(rows, (ranges,)), Precision.MICROSECOND)) == [f"DELETE FROM root.d.a{condition}"]
