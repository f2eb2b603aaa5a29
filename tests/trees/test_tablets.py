"""The tablets that triggers get of the rows of a write."""

from __future__ import annotations

import pyarrow as pa

from headrace.model.time import Precision
from headrace.model.trees import Device, Timeseries
from headrace.model.types import DOUBLE
from headrace.trees.tablets import DeviceTablets, WrittenTablets, rows_by_device

A, B = Timeseries("a", DOUBLE, "a_1"), Timeseries("b", DOUBLE, "b_1")
TIMES = pa.array([3_000, 1_000, 2_000, 1_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
ROWS = pa.table({"time": TIMES, "device": ["root.t.y", "root.t.x", "root.t.y", "root.t.x"], "a_1": [1.0, 2.0, None, 4.0]})


def test_rows_of_a_device_keep_their_order() -> None:
    parts = {path: rows["a_1"].to_pylist() for path, rows in rows_by_device(ROWS)}
    assert parts == {"root.t.y": [1.0, None], "root.t.x": [2.0, 4.0]}
    assert list(rows_by_device(ROWS.slice(0, 0))) == []


def test_triggers_for_the_same_series_share_a_tablet() -> None:
    tablets = DeviceTablets(Device("root.t", "root.t.y", series=(A, B)), Precision("ms"), ROWS.slice(0, 1))
    shared = tablets.tablet([A, B])
    assert shared is not None
    assert tablets.tablet([A]) is shared
    assert shared.rows.to_pydict() == {"time": [3], "a": [1.0]}
    assert tablets.tablet([B]) is None


def test_tablets_of_rows_in_memory_are_built_once() -> None:
    devices = {path: Device("root.t", path, series=(A,)) for path in ("root.t.x", "root.t.y")}
    kept = WrittenTablets(devices, Precision("ms"), lambda: iter([ROWS]), is_in_memory=True)
    assert [id(one) for one in kept] == [id(one) for one in kept]
    read = WrittenTablets(devices, Precision("ms"), lambda: iter([ROWS]), is_in_memory=False)
    first = list(read)
    assert all(one is not two for one, two in zip(first, read, strict=True))
