from __future__ import annotations

import pytest

from headrace.catalog import Catalog, events
from headrace.model.clock import ManualClock
from headrace.model.events import Event


def test_events_are_listed_newest_first(catalog: Catalog, clock: ManualClock) -> None:
    catalog.events.record("job", "s1", "STOPPED", "disk full")
    clock.advance(5)
    catalog.events.record("snode", "default", "STARTED", "epoch 2")
    catalog.events.record("job", "s2", "RESUMED", "by hand")
    now = clock.now()
    stopped, resumed = Event(now - 5, "job", "s1", "STOPPED", "disk full"), Event(now, "job", "s2", "RESUMED", "by hand")
    assert catalog.events.all() == [resumed, Event(now, "snode", "default", "STARTED", "epoch 2"), stopped]
    assert catalog.events.all("job") == [resumed, stopped]
    assert catalog.events.all("job", "s1") == [stopped]
    assert catalog.events.all(limit=1) == [resumed]


def test_old_events_make_room_for_new_ones(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEPT", 3)
    for number in range(5):
        catalog.events.record("job", "s1", "STOPPED", str(number))
    assert [event.message for event in catalog.events.all()] == ["4", "3", "2"]
