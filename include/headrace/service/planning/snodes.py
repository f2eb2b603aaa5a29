"""Plan CREATE SNODE, DROP SNODE and KILL QUERY."""

from __future__ import annotations

from headrace.catalog.members import FIRST
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.statements import CreateSnode, DropSnode, KillQuery
from headrace.service.snode_stages import AddSnode, EndQuery, RemoveSnode
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext


def create_snode(statement: CreateSnode, session: PlanningContext) -> list[Stage]:
    """Plan CREATE SNODE."""
    if statement.dnode == FIRST or statement.dnode in registered(session):
        raise ExistsError(
            f"dnode {statement.dnode} has an snode already", hint="SHOW SNODES lists what there is", span=statement.span
        )
    return [AddSnode(statement.dnode)]


def drop_snode(statement: DropSnode, session: PlanningContext) -> list[Stage]:
    """Plan DROP SNODE."""
    if statement.dnode == FIRST:
        raise IntegrityError("the snode of dnode 1 cannot be dropped", hint="streams need an snode", span=statement.span)
    if statement.dnode not in registered(session):
        raise NotFoundError(f"dnode {statement.dnode} has no snode", hint="SHOW SNODES lists what there is", span=statement.span)
    return [RemoveSnode(statement.dnode)]


def kill_query(statement: KillQuery, _: PlanningContext) -> list[Stage]:
    """Plan KILL QUERY."""
    return [EndQuery(statement.id)]


def registered(session: PlanningContext) -> set[int]:
    """Return the dnodes that have an snode."""
    return {member.dnode for member in session.context.catalog.members.all()}
