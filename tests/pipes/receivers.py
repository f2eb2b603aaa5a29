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
                    delete_point(points, point, event.ranges)
                else:
                    points[point] = row[column]


def delete_point(points: Points, point: tuple[str, int, str], ranges: Iterable[tuple[int, int]]) -> None:
    """Delete a point, and all others of its series in a range that it lies in."""
    points.pop(point, None)
    for low, high in ranges:
        if low <= point[1] <= high:
            series = point[0], point[2]
            for other in [other for other in points if (other[0], other[2]) == series and low <= other[1] <= high]:
                del points[other]
