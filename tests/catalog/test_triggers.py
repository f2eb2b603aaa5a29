"""Registered triggers in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, NotFoundError
from headrace.model.functions import Artifact
from headrace.model.triggers import RegisteredTrigger, TriggerActivity, TriggerEvent, TriggerState, TriggerType
from headrace.trigger import FailureStrategy

ALERT = RegisteredTrigger(
    "Alert",
    "1",
    TriggerEvent.BEFORE_INSERT,
    TriggerType.STATEFUL,
    "root.plant.**",
    "alerts.Alert",
    Artifact("0" * 64, "alerts.py", 5),
    {"limit": "3"},
    owner="vera",
    created=7,
)


def test_triggers_are_listed_by_name_which_distinguishes_case(catalog: Catalog) -> None:
    lower = replace(ALERT, name="alert", id="2")
    catalog.triggers.create(lower)
    catalog.triggers.create(ALERT)
    assert catalog.triggers.all() == [ALERT, lower]
    assert catalog.triggers.get("alert") == lower
    assert catalog.triggers.artifacts() == {"0" * 64}
    catalog.triggers.remove("2")
    assert catalog.triggers.find("alert") is None
    with pytest.raises(NotFoundError, match=r"Failed to drop trigger \[alert\], this trigger has not been created"):
        catalog.triggers.get("alert")


def test_a_name_is_taken_once_its_creation_is_complete(catalog: Catalog) -> None:
    catalog.triggers.create(ALERT)
    catalog.triggers.create(replace(ALERT, id="2"))
    catalog.triggers.change("2", state=TriggerState.ACTIVE.value, failure_strategy=FailureStrategy.OPTIMISTIC.value)
    with pytest.raises(ExistsError, match=r"Failed to create trigger \[Alert\], the same name trigger has been created"):
        catalog.triggers.create(replace(ALERT, id="3"))
    assert catalog.triggers.get("Alert").id == "2"


def test_changes_are_seen_by_this_process_at_once(catalog: Catalog) -> None:
    assert catalog.triggers.active() == ()
    catalog.triggers.create(ALERT)
    assert catalog.triggers.active() == ()
    catalog.triggers.change("1", state=TriggerState.ACTIVE.value)
    assert [trigger.name for trigger in catalog.triggers.active()] == ["Alert"]
    catalog.triggers.change("1", state=TriggerState.INACTIVE.value)
    assert catalog.triggers.active() == ()
    assert not catalog.triggers.change("unknown", state=TriggerState.ACTIVE.value)


def test_stored_entries_are_changed_together(catalog: Catalog) -> None:
    catalog.triggers.create(ALERT)
    catalog.triggers.store_entries("1", {"a": "1", "b": "2"})
    catalog.triggers.store_entries("1", {"a": "3", "b": None})
    assert catalog.triggers.entries("1") == {"a": "3"}
    catalog.triggers.remove("1")
    assert catalog.triggers.entries("1") == {}


def test_calls_are_counted_and_failures_in_a_row_stop_a_trigger(catalog: Catalog) -> None:
    catalog.triggers.create(replace(ALERT, state=TriggerState.ACTIVE))
    failed = TriggerActivity(1, 1, 1, 10, "ValueError", 5)
    for call in (failed, TriggerActivity(1, duration_us=3), failed, failed):
        catalog.trigger_activities.count("1", call)
    assert catalog.trigger_activities.all() == {"1": TriggerActivity(4, 3, 2, 33, "ValueError", 5)}
    assert not catalog.trigger_activities.stop_failing("1", 3, "failed 3 times")
    assert catalog.trigger_activities.stop_failing("1", 2, "failed 2 times")
    stopped = catalog.triggers.get("Alert")
    assert (stopped.state, stopped.reason) == (TriggerState.INACTIVE, "failed 2 times")
