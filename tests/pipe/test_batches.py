"""Tablets of one device, and batches of many."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.pipe import EventCollector, MeasurementSchema, SchemaEvent, TabletBatch, TabletEvent, Type

TABLE = pa.table(
    {
        "time": pa.array([1, 2, 3, 4], pa.int64()),
        "device": ["root.a.d1", "root.a.d2", "root.a.d1", "root.a.d2"],
        "s": pa.array([1.5, None, None, None], pa.float64()),
        "s INT32": pa.array([None, 2, None, None], pa.int32()),
        "t": pa.array([None, None, "x", "y"]),
    }
)
SCHEMAS = {
    "s": MeasurementSchema("s", Type.DOUBLE),
    "s INT32": MeasurementSchema("s", Type.INT32),
    "t": MeasurementSchema("t", Type.STRING),
}
BATCH = TabletBatch(TABLE, SCHEMAS, "us", "root.a", frozenset({"root.a.d2"}))


def shown(tablet: TabletEvent) -> tuple[object, ...]:
    return tablet.device_id, tablet.measurements, tablet.timestamps, tablet.values, tablet.is_aligned


def test_a_batch_has_a_tablet_for_each_device_with_the_measurements_that_have_values() -> None:
    first, second = BATCH.tablets()
    assert shown(first) == ("root.a.d1", ("s", "t"), [1, 3], [[1.5, None], [None, "x"]], False)
    assert shown(second) == ("root.a.d2", ("s", "t"), [2, 4], [[2, None], [None, "y"]], True)
    assert (first.data_types, second.data_types) == ((Type.DOUBLE, Type.STRING), (Type.INT32, Type.STRING))
    assert (first.timestamp_precision, first.database) == ("us", "root.a")


def test_tablets_become_a_batch_again() -> None:
    batch = TabletBatch.of(list(BATCH.tablets()))
    assert batch.table.column_names == ["time", "device", "s", "t", "s INT32"]
    assert (batch.schemas, batch.timestamp_precision, batch.database, batch.aligned) == (SCHEMAS, "us", "root.a", BATCH.aligned)
    first, second = batch.tablets()
    assert shown(first) == ("root.a.d1", ("s", "t"), [1, 3], [[1.5, None], [None, "x"]], False)
    assert shown(second) == ("root.a.d2", ("t", "s"), [2, 4], [[None, "y"], [2, None]], True)


def test_an_empty_batch_has_no_tablets() -> None:
    assert list(BATCH.with_table(TABLE.slice(0, 0)).tablets()) == []


def test_other_rows_keep_measurements_and_have_the_types_of_their_columns() -> None:
    changed = TABLE.set_column(3, "s INT32", TABLE["s INT32"].cast(pa.int64())).append_column("u", pa.array([True] * 4))
    batch = BATCH.with_table(changed.drop_columns(["t"]))
    assert batch.schemas == {
        "s": MeasurementSchema("s", Type.DOUBLE),
        "s INT32": MeasurementSchema("s", Type.INT64),
        "u": MeasurementSchema("u", Type.BOOLEAN),
    }


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="cast them to one of"):
        BATCH.with_table(TABLE.set_column(2, "s", pa.array([1, 2, 3, 4], pa.uint8())))
    with pytest.raises(TypeError, match="wrong: s int32"):
        TabletBatch(TABLE.set_column(2, "s", pa.array([1, 2, 3, 4], pa.int32())), SCHEMAS)
    with pytest.raises(TypeError, match="wrong: device is missing"):
        TabletBatch(TABLE.drop_columns(["device"]), SCHEMAS)


def test_a_tablet_is_made_of_lists() -> None:
    tablet = TabletEvent.of("root.a.d", [1, 2], {"a": [1.5, None], "b": [1, 2], "c": ["x", "y"]}, {"b": Type.INT32})
    assert tablet.data_types == (Type.DOUBLE, Type.INT32, Type.TEXT)
    assert [(row.time, dict(row.items())) for row in tablet] == [(1, {"a": 1.5, "b": 1, "c": "x"}), (2, {"b": 2, "c": "y"})]


def test_a_measurement_may_have_the_name_of_a_key() -> None:
    batch = TabletBatch.of([TabletEvent.of("root.a.d", [1], {"device": ["x"], "time": [5]})])
    (tablet,) = batch.tablets()
    assert shown(tablet) == ("root.a.d", ("device", "time"), [1], [["x"], [5]], False)


def test_a_tablet_whose_values_have_another_type_is_refused() -> None:
    tablet = TabletEvent("root.a.d", TABLE.select(["time", "s"]).to_batches()[0], [Type.INT32])
    with pytest.raises(TypeError, match=r"s of root\.a\.d is INT32, but has values of the Arrow type double"):
        TabletBatch.of([tablet])


def test_a_collector_takes_events_alone() -> None:
    collector = EventCollector()
    with pytest.raises(TypeError, match="not list"):
        collector.collect([])  # type: ignore[arg-type]
    event = SchemaEvent("create database root.a", "schema.database.create")
    collector.collect(event)
    assert collector.take_events() == [event]
    assert collector.take_events() == []
