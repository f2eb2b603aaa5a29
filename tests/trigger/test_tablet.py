"""Tablets and stores of triggers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.trigger import FailureStrategy, StoreFullError, Tablet, Trigger, TriggerAttributes, TriggerStore, Type
from headrace.trigger.store import MAX_STORE_BYTES


def tablet() -> Tablet:
    batch = pa.RecordBatch.from_pydict({"time": [1, 5], "a": pa.array([1, None], pa.int32()), "b": ["x", "y"]})
    return Tablet("root.plant.line1", batch, [Type.INT32, Type.TEXT])


def test_a_tablet_has_the_names_of_iotdbs_api() -> None:
    rows = tablet()
    assert (rows.get_device_id(), rows.row_size, len(rows)) == ("root.plant.line1", 2, 2)
    assert [(schema.measurement_id, schema.type) for schema in rows.get_schemas()] == [("a", Type.INT32), ("b", Type.TEXT)]
    assert rows.timestamps == [1, 5]
    assert rows.values == [[1, None], ["x", "y"]]
    assert (rows.get_timestamp(1), rows.get_value(1, 1), rows.is_null(1, 0), rows.is_null(0, 0)) == (5, "y", True, False)


def test_iterating_over_a_tablet_gives_its_rows() -> None:
    first, second = tablet()
    assert (first.time, first["a"], second["b"], second["a"]) == (1, 1, "y", None)
    assert second.get("a", 7) == 7
    assert second.get("missing") is None
    assert dict(second.items()) == {"b": "y"}
    with pytest.raises(KeyError):
        first["missing"]


def test_attributes_are_read_by_type() -> None:
    attributes = TriggerAttributes({"limit": "4", "high": "1.5", "on": "TRUE"})
    assert (attributes.get_int("limit"), attributes.get_double("high"), attributes.get_boolean("on")) == (4, 1.5, True)
    assert (attributes.get_long("none"), attributes.get_string_or_default("none", "x")) == (None, "x")


def test_a_store_keeps_changes_until_they_are_taken_or_discarded() -> None:
    store = TriggerStore({"n": "1"}, writable=True)
    store.put("n", 2)
    store.put("list", [1, None])
    assert (store.get("n"), store.get("list"), list(store)) == (2, [1, None], ["list", "n"])
    store.discard_changes()
    assert (store.get("n"), "list" in store) == (1, False)
    store.remove("n")
    assert "n" not in store
    assert store.take_changes() == {"n": None}
    assert list(store) == []


def test_a_store_is_limited_and_belongs_to_stateful_triggers() -> None:
    with pytest.raises(StoreFullError):
        TriggerStore(writable=True).put("k", "x" * MAX_STORE_BYTES)
    with pytest.raises(RuntimeError, match="STATEFUL"):
        TriggerStore().put("k", 1)


class Careless(Trigger):
    def __init__(self) -> None:
        self.fired = 0

    def fire(self, tablet: Tablet) -> bool:
        self.insert("root.alerts.a", tablet.timestamps[0], {"n": tablet.row_size})
        return True


def test_a_trigger_has_a_store_and_insertions_without_calling_the_base_class() -> None:
    trigger = Careless()
    trigger.fire(tablet())
    assert [(row.device_id, row.time, row.values) for row in trigger.take_insertions()] == [("root.alerts.a", 1, {"n": 2})]
    assert trigger.take_insertions() == []
    assert trigger.get_failure_strategy() is FailureStrategy.OPTIMISTIC
    assert list(trigger.store) == []
