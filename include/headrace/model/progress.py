"""Progress callbacks for long work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with what is done and with the total, in rows."""


def no_progress(done: int, total: int) -> None:
    """A `Progress` that shows nothing."""
