"""The processor that passes all events on."""

from __future__ import annotations

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Processor
from headrace.pipes.plugins import no_checks as validate

__all__ = ["create", "validate"]


def create(_: PipeAttributes, __: PipeContext) -> Processor:
    """Return the processor."""
    return Processor()
