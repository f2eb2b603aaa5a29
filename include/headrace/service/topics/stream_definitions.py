"""Define streams by the settings and the clock of a session; what stages say of them."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.jobs import JobDefinition
from headrace.model.statements import CreateStream
from headrace.service.job_cycles import check_stream_ends
from headrace.service.names import with_span
from headrace.service.rights import Action, Right, Securable, table_securable
from headrace.service.stage import PlanningContext
from headrace.service.topics.jobs import needed_rights
from headrace.streams.definition.define import StreamPlan, define
from headrace.streams.kind import STREAM
from headrace.streams.sources.stored import max_stored_time


def define_stream(
    statement: CreateStream,
    session: PlanningContext,
    *,
    replaced: JobDefinition | None = None,
    recorded: JobDefinition | None = None,
) -> StreamPlan:
    """Return the plan of a statement, which takes the place of a stream `replaced`.

    The statement is in the database and dialect of a stream `recorded`, by default in those of the session.
    """
    context, origin = session.context, recorded or session
    plan = define(
        statement,
        context.catalog,
        origin.database,
        dialect=origin.dialect,
        now=context.clock.now(),
        replaced=replaced,
        max_streams=context.settings.streams_per_database,
        settings=context.settings,
    )
    with with_span(statement.target.span):
        check_stream_ends(plan, context, replaced)
    if not plan.follows_tags and not plan.keeps_groups:
        return plan
    has_history = plan.options.fill_history or replaced is not None
    since = None if plan.keeps_groups or has_history else max_stored_time(context, plan)
    return replace(plan, tags_version=context.tables.tags.version(plan.source), since=since)


def explain_target(plan: StreamPlan) -> str:
    """Describe the target's columns and tags, and whether it exists."""
    target = plan.target
    verb = "write to existing" if plan.target_exists else "create"
    columns = ", ".join(f"{column.name} {column.type}" for column in target.columns)
    tags = ", ".join(f"{tag.name} {tag.type}" for tag in target.tags)
    return f"{verb} target {target.database}.{target.name} ({columns}) tags ({tags})"


def stream_rights(plan: StreamPlan, session: PlanningContext) -> tuple[Right, ...]:
    """Return the rights that a stream needs, with CREATE on its target if that is missing."""
    rights = needed_rights(plan.definition(created=0, dialect=session.dialect), session.context)
    if plan.target_exists:
        return rights
    target = table_securable(plan.target)
    return tuple(Right(Action.CREATE, target) if right == Right(Action.WRITE, target) else right for right in rights)


def plan_securable(plan: StreamPlan) -> Securable:
    return Securable(STREAM, plan.database, plan.name)
