"""The metrics of triggers, which all processes that call them have counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from headrace.catalog import Catalog
from headrace.model.triggers import RegisteredTrigger, TriggerActivity
from headrace.runtime.metric_families import counter, gauge

CountedTriggers = Sequence[tuple[RegisteredTrigger, TriggerActivity]]


def counted_triggers(catalog: Catalog) -> CountedTriggers:
    """Return the triggers with what has been counted of their calls."""
    activity = catalog.trigger_activities.all()
    return [(trigger, activity.get(trigger.id, TriggerActivity())) for trigger in catalog.triggers.all()]


def trigger_metrics(triggers: CountedTriggers) -> Iterator[Metric]:
    """Yield the metric families of triggers."""
    labels = ("trigger",)
    rows = [((trigger.name,), trigger, activity) for trigger, activity in triggers]
    yield gauge("trigger_active", "1 if writes call the trigger.", labels, [(key, float(one.is_active)) for key, one, _ in rows])
    yield counter("trigger_calls", "Calls of a trigger.", labels, [(key, activity.calls) for key, _, activity in rows])
    yield counter("trigger_failures", "Calls of a trigger that failed.", labels, [(key, own.failures) for key, _, own in rows])
    seconds = [(key, activity.duration_us / 1e6) for key, _, activity in rows]
    yield counter("trigger_seconds", "Time that writers have waited for a trigger.", labels, seconds)
