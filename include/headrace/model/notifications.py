"""Notifications: which window events a stream sends, and where to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventType(StrEnum):
    """What happened to a window."""

    WINDOW_OPEN = "WINDOW_OPEN"
    """It has its first row."""
    WINDOW_CLOSE = "WINDOW_CLOSE"
    """Its result was written; with AT_ONCE possibly several times."""
    WINDOW_INVALIDATION = "WINDOW_INVALIDATION"
    """Its result was removed. Sent to subscribers of WINDOW_CLOSE."""


SUBSCRIBABLE_EVENTS = (EventType.WINDOW_OPEN, EventType.WINDOW_CLOSE)


class FailurePolicy(StrEnum):
    """What happens if a message cannot be delivered."""

    PAUSE = "PAUSE"
    """It is tried again until it is delivered, and the stream waits when too many messages are waiting."""
    DROP = "DROP"
    """It is dropped."""


@dataclass(frozen=True, slots=True)
class Notification:
    """`NOTIFY (…) ON (…)` of a stream.

    Attributes:
        urls: WebSocket addresses. Each gets all messages.
        events: The types of events to send, each once.
        history: Whether windows of the history are sent too.
    """

    urls: tuple[str, ...]
    events: tuple[EventType, ...]
    on_failure: FailurePolicy = FailurePolicy.PAUSE
    history: bool = False

    def subscribes_to(self, event: EventType) -> bool:
        """Return True if events of this type are sent."""
        return event in self.events or (event is EventType.WINDOW_INVALIDATION and EventType.WINDOW_CLOSE in self.events)
