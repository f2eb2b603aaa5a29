"""What the pipes of a driver share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from headrace.pipes.feeds import Feeds
from headrace.pipes.shared_sinks import SharedSinks


@dataclass(frozen=True, slots=True)
class Shared:
    """Change feeds and sinks.

    Attributes:
        feeds: The change feeds of tables.
        sinks: The sinks.
        rejected_since: Since when a receiver rejects what a pipe delivers, by the pipe's id, on the monotonic clock. Kept here,
            since sinks are created again after each failure.
        leaves_history: Whether tasks of Airflow transfer large histories of pipes that allow that.
    """

    feeds: Feeds
    sinks: SharedSinks = field(default_factory=SharedSinks)
    rejected_since: dict[str, float] = field(default_factory=dict)
    leaves_history: bool = False

    def forget_rejections(self, wanted: Collection[str]) -> None:
        """Forget rejections of pipes that a user has stopped or dropped, given the ids of all others."""
        for id in list(self.rejected_since):  # pipes that run add to it meanwhile
            if id not in wanted:
                self.rejected_since.pop(id, None)
