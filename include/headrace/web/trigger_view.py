"""Triggers as the page lists them below the jobs. They are not jobs: writers call them, and there is nothing to schedule."""

from __future__ import annotations

from typing import Any

from headrace.model.triggers import RegisteredTrigger, TriggerActivity
from headrace.runtime.trigger_metrics import CountedTriggers


def trigger_rows(triggers: CountedTriggers) -> list[dict[str, Any]]:
    """Return the triggers that are created, with what has been counted of their calls."""
    return [trigger_row(*one) for one in triggers if one[0].failure_strategy is not None]


def trigger_row(trigger: RegisteredTrigger, activity: TriggerActivity) -> dict[str, Any]:
    return {
        "name": trigger.name,
        "event": trigger.event.value,
        "type": trigger.type.value,
        "pattern": trigger.pattern,
        "class_name": trigger.class_name,
        "owner": trigger.owner,
        "state": trigger.state.value,
        "reason": trigger.reason,
        "calls": activity.calls,
        "failures": activity.failures,
        "duration_us": activity.duration_us,
        "last_error": activity.last_error,
        "last_error_at": activity.last_error_at,
    }
