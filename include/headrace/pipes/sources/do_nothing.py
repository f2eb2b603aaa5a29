"""The source that never has anything."""

from __future__ import annotations

from headrace.model.positions import Offsets
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Source, SourceBatch
from headrace.pipes.plugins import no_checks as validate

__all__ = ["create", "validate"]


class DoNothingSource:
    """Never has events."""

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:  # noqa: ARG002
        """Return None."""
        return None

    def has_news(self, offsets: Offsets) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def has_ended(self, offsets: Offsets) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:  # noqa: ARG002
        """Return that nothing is pending."""
        return 0, None

    def acknowledge(self, offsets: Offsets) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def create(_: PipeAttributes, __: PipeContext) -> Source:
    """Return the source."""
    return DoNothingSource()
