"""Triggers for tests of the page."""

from __future__ import annotations

from headrace.catalog import Catalog
from headrace.model.functions import Artifact
from headrace.model.triggers import RegisteredTrigger, TriggerActivity, TriggerEvent, TriggerState, TriggerType
from headrace.trigger import FailureStrategy


def add_trigger(catalog: Catalog, name: str, *, reason: str = "", is_created: bool = True) -> None:
    """Register a trigger, which is stopped if there is a reason."""
    trigger = RegisteredTrigger(
        name,
        name,
        TriggerEvent.BEFORE_INSERT,
        TriggerType.STATELESS,
        "root.plant.**.temperature",
        "alerts.OutOfRange",
        Artifact("0" * 64, "alerts.py", 5),
        owner="vera",
        state=TriggerState.INACTIVE if reason else TriggerState.ACTIVE,
        failure_strategy=FailureStrategy.OPTIMISTIC if is_created else None,
        reason=reason,
    )
    catalog.triggers.create(trigger)


def count_calls(catalog: Catalog, name: str, *, failures: int) -> None:
    """Count five calls of a trigger, the last ones of which failed."""
    catalog.trigger_activities.count(name, TriggerActivity(5, failures, failures, 12_000, "fire returned False", catalog.now()))
    catalog.trigger_activities.flush()
