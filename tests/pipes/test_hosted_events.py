"""Events of pipes as plugins see them, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace import pipe as api
from headrace.errors import UserCodeError
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, InsertEvent, Measurement, StatementEvent
from headrace.pipes.hosted.events import from_plugin, to_plugin
from tests.pipes.plugin_samples import DOUBLE, insert, rows


def test_events_come_back_as_they_were() -> None:
    events: list[Event] = [insert({1: 1.5, 2: None}), DeleteEvent(rows({3: 0.5})), StatementEvent("create database root.a", "x")]
    assert from_plugin(to_plugin(events), "plugin") == events


def test_types_that_iotdb_does_not_have_become_wider() -> None:
    columns = {
        "a": (pa.array([1], pa.int8()), TypeKind.TINYINT, api.Type.INT32),
        "b": (pa.array([2**32 - 1], pa.uint32()), TypeKind.UINT, api.Type.INT64),
        "c": (pa.array(["x"]), TypeKind.NCHAR, api.Type.STRING),
        "d": (pa.array([b"x"]), TypeKind.VARBINARY, api.Type.BLOB),
        "e": (pa.array(["{}"]), TypeKind.JSON, api.Type.TEXT),
        "f": (pa.array([5], pa.int64()), TypeKind.TIMESTAMP, api.Type.TIMESTAMP),
    }
    table = pa.table({"time": pa.array([1], pa.int64()), "device": ["root.a.d"], **{name: one[0] for name, one in columns.items()}})
    measurements = {name: Measurement(name, DataType(one[1])) for name, one in columns.items()}
    (batch,) = to_plugin([InsertEvent(DeviceRows(table, measurements, Precision.NANOSECOND))])
    assert isinstance(batch, api.TabletBatch)
    assert {name: schema.type for name, schema in batch.schemas.items()} == {name: one[2] for name, one in columns.items()}
    assert batch.timestamp_precision == "ns"


def test_names_of_a_plugin_become_canonical() -> None:
    tablet = api.TabletEvent.of("root.a.`d1`", [1], {"my temperature": [1.5]})
    (event,) = from_plugin([api.TabletBatch.of([tablet])], "plugin")
    assert isinstance(event, InsertEvent)
    assert event.data.columns == {"my temperature": Measurement("`my temperature`", DOUBLE)}
    assert event.data.rows["device"].to_pylist() == ["root.a.d1"]


@pytest.mark.parametrize("device", ["", "root", "plant.d", "root.a.**", "root.a b"])
def test_a_device_that_is_no_path_is_refused(device: str) -> None:
    batch = api.TabletBatch.of([api.TabletEvent.of(device, [1], {"s": [1.5]})])
    with pytest.raises(UserCodeError, match=r"source plugin X has rows of .*, which is not the path of a device"):
        from_plugin([batch], "source plugin X")
