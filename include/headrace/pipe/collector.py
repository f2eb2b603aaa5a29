"""What a processor hands on."""

from __future__ import annotations

from headrace.pipe.batches import TabletBatch
from headrace.pipe.events import DeleteEvent, Event, SchemaEvent, TabletEvent


class EventCollector:
    """Takes the events that a processor hands on, in order."""

    def __init__(self) -> None:
        """Begin without events."""
        self._events: list[Event] = []

    def collect(self, event: Event) -> None:
        """Hand an event on. Raise `TypeError` if it is none."""
        if not isinstance(event, TabletEvent | TabletBatch | DeleteEvent | SchemaEvent):
            raise TypeError(f"collect takes an event, not {type(event).__name__}")
        self._events.append(event)

    def take_events(self) -> list[Event]:
        """Return the events that were collected since the last call. The host of the processor calls this."""
        events, self._events = self._events, []
        return events
