"""Reasons for differences, by patterns of the statement and of the difference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason for differences of statements that match one pattern, if their description matches another."""

    statement: str
    difference: str
    reason: str

    def covers(self, statement: str, difference: str) -> bool:
        """Return whether this explains a difference."""
        return bool(re.search(self.statement, statement, re.I | re.S) and re.search(self.difference, difference, re.S))


def explain(reason: str, difference: str, statement: str = "") -> Explanation:
    """Return an explanation for all statements, or for those that match a pattern."""
    return Explanation(statement, difference, reason)


def explanation(explanations: Sequence[Explanation], statement: str, difference: str) -> str | None:
    """Return the reason for a difference, or None if there is none."""
    return next((each.reason for each in explanations if each.covers(statement, difference)), None)
