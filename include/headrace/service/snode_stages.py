"""Stages of statements about snodes."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.service.rights import CATALOG, Action, Right


@dataclass(frozen=True, slots=True)
class AddSnode:
    """Register an snode, which takes its share of the jobs once it runs."""

    dnode: int

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the catalog."""
        return (Right(Action.ALTER, CATALOG),)


@dataclass(frozen=True, slots=True)
class RemoveSnode:
    """Remove an snode; its jobs move to that of dnode 1."""

    dnode: int

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the catalog."""
        return (Right(Action.ALTER, CATALOG),)
