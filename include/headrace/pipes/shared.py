"""What the pipes of a driver share."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipes.feeds import Feeds
from headrace.pipes.shared_sinks import SharedSinks


@dataclass(frozen=True, slots=True)
class Shared:
    """Change feeds and sinks.

    Attributes:
        feeds: The change feeds of tables.
        sinks: The sinks.
        leaves_history: Whether tasks of Airflow transfer large histories of pipes that allow that.
    """

    feeds: Feeds
    sinks: SharedSinks = field(default_factory=SharedSinks)
    leaves_history: bool = False
