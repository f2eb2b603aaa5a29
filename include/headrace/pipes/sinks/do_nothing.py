"""The sink that drops what it gets."""

from __future__ import annotations

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Sink
from headrace.pipes.plugins import no_checks as validate

__all__ = ["create", "validate"]


def create(_: PipeAttributes, __: PipeContext) -> Sink:
    """Return the sink."""
    return Sink()
