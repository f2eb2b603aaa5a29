"""A receiver of events that remembers points, as any idempotent one does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.pipes.events import DEVICE, TIME, DeleteEvent, Event, InsertEvent

Points = dict[tuple[str, int, str], Any]
"""Values by device, time in ticks, and measurement."""


def apply_events(points: Points, events: Iterable[Event]) -> None:
    """Apply events in order."""
    for event in events:
        assert isinstance(event, InsertEvent | DeleteEvent)
        for row in event.data.rows.to_pylist():
            for column, measurement in event.data.columns.items():
                if row[column] is None:
                    continue
                point = (row[DEVICE], row[TIME], measurement.name)
                if isinstance(event, DeleteEvent):
                    points.pop(point, None)
                else:
                    points[point] = row[column]
