"""Notifications: which window events a stream sends, and where to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.egress import Endpoint, EndpointKind

WEBSOCKET_SCHEMES: Final = ("ws", "wss")
WEBHOOK_SCHEMES: Final = ("http", "https")


class EventType(StrEnum):
    """What happened to a window."""

    WINDOW_OPEN = "WINDOW_OPEN"
    """It has its first row."""
    WINDOW_CLOSE = "WINDOW_CLOSE"
    """Its result was written, or it has ended: see `ClosePolicy`."""
    WINDOW_INVALIDATION = "WINDOW_INVALIDATION"
    """It is gone, as when it merges with another one, or its result was removed. Sent to subscribers of WINDOW_CLOSE."""


SUBSCRIBABLE_EVENTS = (EventType.WINDOW_OPEN, EventType.WINDOW_CLOSE)


class FailurePolicy(StrEnum):
    """What happens if a message cannot be delivered."""

    PAUSE = "PAUSE"
    """It is tried again until it is delivered, and the stream waits when too many messages are waiting."""
    DROP = "DROP"
    """It is dropped."""


class ClosePolicy(StrEnum):
    """What `WINDOW_CLOSE` says of a window."""

    RESULT = "RESULT"
    """A result was written, as in TDengine: with AT_ONCE and MAX_DELAY possibly before the window's end, and several times."""
    END = "END"
    """Event time has passed its end, whatever the trigger; or its result has changed after that."""


@dataclass(frozen=True, slots=True)
class Notification:
    """`NOTIFY (…) ON (…)` of a stream. Each address gets all messages; `history` is whether also those of the history."""

    urls: tuple[str, ...]
    events: tuple[EventType, ...]
    on_failure: FailurePolicy = FailurePolicy.PAUSE
    history: bool = False
    on_close: ClosePolicy = ClosePolicy.RESULT

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where the messages go."""
        return tuple(Endpoint(EndpointKind.NOTIFY, url) for url in self.urls)

    def subscribes_to(self, event: EventType) -> bool:
        """Return True if events of this type are sent."""
        return event in self.events or (event is EventType.WINDOW_INVALIDATION and EventType.WINDOW_CLOSE in self.events)
