"""Counts of what the tests of this process have tried, for the summary at their end."""

from __future__ import annotations

from collections import Counter

_counts: Counter[str] = Counter()
_notes: set[str] = set()


def add(what: str, number: int = 1) -> None:
    """Count something that was tried."""
    _counts[what] += number


def note(text: str) -> None:
    """Add a line to the summary."""
    _notes.add(text)


def summary() -> list[str]:
    """Return a line for each kind of thing, and the notes."""
    return [*(f"tried: {number} {what}" for what, number in sorted(_counts.items())), *sorted(_notes)]
