"""The source that never has anything."""

from __future__ import annotations

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Source
from headrace.pipes.plugins import no_checks as validate

__all__ = ["create", "validate"]


def create(_: PipeAttributes, __: PipeContext) -> Source:
    """Return the source."""
    return Source()
