"""Reasons for differences, by patterns of the statement and of the difference, and by further questions to the server."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.iotdb_comparison.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Evidence:
    """A statement with both answers, and `ask`, which executes a further query on the server."""

    statement: str
    ours: Outcome
    theirs: Outcome
    ask: Callable[[str], Outcome]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason for differences of statements that match one pattern, if their description matches another.

    `confirms`, if there is one, has to find the reason in the evidence, too.
    """

    statement: str
    difference: str
    reason: str
    confirms: Callable[[Evidence], bool] | None = None

    def covers(self, statement: str, difference: str, evidence: Evidence | None) -> bool:
        """Return whether this explains a difference."""
        return (
            re.search(self.statement, statement, re.I | re.S) is not None
            and re.search(self.difference, difference, re.S) is not None
            and (self.confirms is None or (evidence is not None and self.confirms(evidence)))
        )


def explain(reason: str, difference: str, statement: str = "", confirms: Callable[[Evidence], bool] | None = None) -> Explanation:
    """Return an explanation for all statements, or for those that match a pattern."""
    return Explanation(statement, difference, reason, confirms)


def explanation(
    explanations: Sequence[Explanation], statement: str, difference: str, evidence: Evidence | None = None
) -> str | None:
    """Return the reason for a difference, or None if there is none."""
    return next((each.reason for each in explanations if each.covers(statement, difference, evidence)), None)
