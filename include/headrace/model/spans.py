"""Positions in a statement's text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets in the text of one statement."""

    start: int
    end: int

    def position(self, text: str) -> tuple[int, int]:
        """Return the line and column of the start, both counted from 1."""
        before = text[: self.start]
        return before.count("\n") + 1, self.start - (before.rfind("\n") + 1) + 1
