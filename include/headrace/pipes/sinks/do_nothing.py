"""The sink that drops what it gets."""

from __future__ import annotations

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import Delivery, PipeContext, Sink
from headrace.pipes.plugins import no_checks as validate

__all__ = ["create", "validate"]


class DoNothingSink:
    """Drops all events."""

    def handshake(self) -> None:
        """Do nothing."""

    def heartbeat(self) -> None:
        """Do nothing."""

    def transfer(self, delivery: Delivery) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def create(_: PipeAttributes, __: PipeContext) -> Sink:
    """Return the sink."""
    return DoNothingSink()
