"""Stages whose description and execution are registered elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.service.results import Result
from headrace.service.stage import Stage

if TYPE_CHECKING:
    from headrace.service.state import SessionState


class DispatchedStage(Stage):
    """A stage with a registered description and a registered execution."""

    __slots__ = ()

    def describe(self) -> list[str]:
        """Return the lines of EXPLAIN."""
        from headrace.service.explain import describe

        return describe(self)

    def apply(self, session: SessionState, /) -> Result:
        """Do what is registered."""
        from headrace.service.executors import apply

        return apply(self, session)
