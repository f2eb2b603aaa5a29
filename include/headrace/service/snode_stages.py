"""Stages of statements about snodes."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.service.dispatched import DispatchedStage
from headrace.service.rights import CATALOG, Action, Right


@dataclass(frozen=True, slots=True)
class AddSnode(DispatchedStage):
    """Register an snode, which takes its share of the jobs once it runs."""

    dnode: int

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the catalog."""
        return (Right(Action.ALTER, CATALOG),)


@dataclass(frozen=True, slots=True)
class RemoveSnode(DispatchedStage):
    """Remove an snode; its jobs move to that of dnode 1."""

    dnode: int

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the catalog."""
        return (Right(Action.ALTER, CATALOG),)


@dataclass(frozen=True, slots=True)
class ListQueries(DispatchedStage):
    """List the queries that snodes run for users."""

    @property
    def required(self) -> tuple[Right, ...]:
        """DESCRIBE on the catalog."""
        return (Right(Action.DESCRIBE, CATALOG),)


@dataclass(frozen=True, slots=True)
class EndQuery(DispatchedStage):
    """End a query that an snode runs, by its id."""

    id: str

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the catalog."""
        return (Right(Action.OPERATE, CATALOG),)
