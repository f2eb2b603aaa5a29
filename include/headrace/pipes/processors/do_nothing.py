"""The processor that passes all events on."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import Event
from headrace.pipes.plugins import PipeContext, Processor, Tables
from headrace.pipes.plugins import no_checks as validate

__all__ = ["DoNothingProcessor", "create", "validate"]


class DoNothingProcessor:
    """Passes all events on."""

    wake_at: int | None = None

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:  # noqa: ARG002
        """Return the events."""
        return events

    def state(self) -> Tables | None:
        """Return None: there is no state."""
        return None

    def restore(self, state: Tables) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def create(_: PipeAttributes, __: PipeContext) -> Processor:
    """Return the processor."""
    return DoNothingProcessor()
