"""Whether a combination that a rule forbids is refused for its reason."""

from __future__ import annotations

from typing import Protocol

import headrace
from headrace.errors import Error
from tests.combinations.covering import Rule


class Creating(Protocol):
    """A play of a combination, whatever it creates."""

    def statement(self) -> str: ...


def refusal(connection: headrace.Connection, play: Creating, rule: Rule) -> str | None:
    """Return what is wrong about the answer to a statement that a rule forbids, or None."""
    try:
        connection.execute(f"explain {play.statement()}")
    except Error as error:
        return None if rule.message in error.message else f"{error.message}, not {rule.message}: {play.statement()}"
    return f"accepted, though {rule.message}: {play.statement()}"
