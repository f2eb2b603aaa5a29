"""CREATE OR REPLACE STREAM over a stream that exists, ALTER STREAM and RESET STREAM."""

from __future__ import annotations

import difflib
from dataclasses import fields, replace

from headrace.compute import explain
from headrace.errors import Error, InvalidStreamError, NotSupportedError
from headrace.model.jobs import JobDefinition, JobRecord, Replacement
from headrace.model.statements import ALTERABLE_OPTIONS, AlterStream, CreateStream, ResetStream
from headrace.model.streams import StreamOptions
from headrace.service.describing import indent
from headrace.service.job_cycles import recording_stream
from headrace.service.names import find_stream
from headrace.service.rights import Action, Right, job_securable, on_job
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.jobs import needed_rights, notify_airflow
from headrace.service.topics.stream_definitions import define_stream, explain_target, plan_securable, stream_rights
from headrace.sql import to_sql
from headrace.streams.definition.checks import check_statement, source_name
from headrace.streams.definition.define import StreamPlan, catalog_scope, plan_recorded_stream, recorded_statement
from headrace.streams.sources.stored import count_rows

OPTION_TEXTS = {"ignore_expired": "IGNORE EXPIRED", "ignore_update": "IGNORE UPDATE"}


def plan_alter_stream(statement: AlterStream, session: PlanningContext) -> list[Stage]:
    """Plan ALTER STREAM: options that decide on later rows change while the stream keeps its results and its position."""
    record = find_stream(statement.name, session, statement.if_exists)
    if record is None:
        return []
    recorded = recorded_statement(record.definition)
    altered = replace(recorded, options=statement.apply(recorded.options))
    try:
        check_options(altered, record.definition, session)
    except Error as error:
        error.span = statement.name.span
        raise
    rights = (*on_job(Action.ALTER, record.definition), *needed_rights(record.definition, session.context))
    return redefine(record, recorded, altered, rights)


def redefine(
    record: JobRecord, recorded: CreateStream, altered: CreateStream, rights: tuple[Right, ...], *, takes_over: bool = False
) -> list[Stage]:
    """Return the stages that change a stream's options and notifications in place; none if nothing changes.

    With `takes_over` it belongs to the user who changes it from then on.
    """
    changes = option_changes(recorded.options, altered.options)
    if recorded.notification != altered.notification:
        changes = (*changes, "NOTIFY" if altered.notification is not None else "no NOTIFY")
    if not changes:
        return []
    definition = replace(record.definition, sql=to_sql(altered, record.definition.dialect))

    def apply(session: SessionState) -> None:
        owned = replace(definition, owner=session.record_owner()) if takes_over else definition
        session.context.catalog.jobs.redefine(owned, user=session.user)
        session.context.catalog.events.record("job", definition.id, "ALTERED", ", ".join(changes))

    described = [f"alter stream {definition}, which keeps its target and its position", *indent(changes)]
    return [Stage(rights, lambda: described, apply), notify_airflow(job_securable(definition))]


def check_options(statement: CreateStream, definition: JobDefinition, session: PlanningContext) -> None:
    scope = catalog_scope(
        session.context.catalog, definition.database, dialect=definition.dialect, settings=session.context.settings
    )
    check_statement(statement, scope.relation(source_name(statement.query).name), scope.language)


def plan_reset_stream(statement: ResetStream, session: PlanningContext) -> list[Stage]:
    """Plan RESET STREAM: replace the stream with itself, after a backfill of all stored rows."""
    record = find_stream(statement.name, session, statement.if_exists)
    if record is None:
        return []
    definition = record.definition
    recorded = recorded_statement(definition)
    plan = define_stream(recorded, session, replaced=definition, recorded=definition)
    return rebuild(record, replace(plan, sql=definition.sql, name=definition.name), session, clears=False)


def replace_stream(statement: CreateStream, record: JobRecord, session: PlanningContext) -> list[Stage]:
    """Plan CREATE OR REPLACE STREAM: change options in place if nothing else differs, else compute the target again.

    Raises:
        InvalidStreamError: The target exists with other columns or tags than the new results have.
    """
    context, definition = session.context, record.definition
    recorded = recorded_statement(definition)
    try:
        plan = define_stream(statement, session, replaced=definition)
    except Error as error:
        raise target_misfit(error, statement, definition, session) from None
    old = plan_recorded_stream(definition, context.catalog, context.settings)
    if has_same_results(old, plan) and only_alterable_differ(recorded.options, statement.options):
        altered = replace(recorded, options=statement.options, notification=statement.notification)
        return redefine(record, recorded, altered, replacing_rights(plan, session), takes_over=True)
    # Groups that only the old query has would keep their rows otherwise.
    return rebuild(record, plan, session, clears=True, differences=plan_differences(old, plan))


def replacing_rights(plan: StreamPlan, session: PlanningContext) -> tuple[Right, ...]:
    """Return the rights that a user needs to put a stream in the place of another one, which belongs to that user from then on."""
    actions = (Right(action, plan_securable(plan)) for action in (Action.DROP, Action.CREATE))
    return (*actions, *stream_rights(plan, session))


def target_misfit(error: Error, statement: CreateStream, definition: JobDefinition, session: PlanningContext) -> Error:
    """Return the error of a definition; if the stream's own target does not fit the new results, say how to continue."""
    target = statement.target
    names_own = definition.target is not None and (target.database or session.database, target.name) == (
        definition.target.database,
        definition.target.name,
    )
    if names_own and error.span == target.span:
        return InvalidStreamError(
            f"the target {target.name} does not fit the new results: {error.message}",
            hint="add its columns with ALTER STABLE … ADD COLUMN, name another target, or DROP STREAM and DROP STABLE first",
            span=target.span,
        )
    return error


def rebuild(
    record: JobRecord, plan: StreamPlan, session: PlanningContext, *, clears: bool, differences: tuple[str, ...] = ()
) -> list[Stage]:
    """Plan to compute a stream again from the stored rows by `plan`, and to replace its rows in the target.

    With `clears` the target keeps nothing but the new results; otherwise only the subtables of the stream's groups change.
    `differences` are lines that show how the plans differ, if the statement is another one.
    """
    if plan.is_closed_by_clock:
        raise NotSupportedError(
            f"the stream {plan.name} has FORCE_WINDOW_CLOSE: its windows are computed once",
            hint="DROP STREAM, and create it with another target",
        )
    rows, old = count_rows(session.context, plan.sources), record.definition
    chunks = max(1, -(-rows // session.context.settings.chunk_rows))

    def apply(session: SessionState) -> None:
        from headrace.streams.lifecycle import replace_stream

        replaces = Replacement(old.id, clears, old.parts) if old.target == plan.target.id else None
        # Airflow identifies the job of a DAG by the time of creation, so it has to increase.
        created = max(session.context.clock.now(), old.created + 1)
        owner = session.record_owner() if differences else old.owner
        definition = plan.definition(created=created, snode=old.snode, dialect=old.dialect, replaces=replaces, owner=owner)
        with recording_stream(plan, session.context, old):
            replace_stream(session.context, plan, definition, record)

    def describe() -> list[str]:
        head = f"{'replace' if differences else 'reset'} stream {old}"
        last = f"recompute {rows} stored rows of {old.source} in about {chunks} chunks, on Spark"
        return [head, *indent(differences), *describe_target(plan, old, clears=clears), last]

    operating = (Right(Action.OPERATE, plan_securable(plan)), *stream_rights(plan, session))
    rights = replacing_rights(plan, session) if differences else operating
    return [Stage(rights, describe, apply, replaces=True), notify_airflow(job_securable(old))]


def describe_target(plan: StreamPlan, old: JobDefinition, *, clears: bool) -> list[str]:
    """Describe what happens to the rows of the target of a stream that is replaced."""
    if old.target != plan.target.id:
        return [explain_target(plan), f"leave the rows of {old.target} as they are"]
    replaced = "all rows of" if clears else "the stream's rows in"
    return [f"replace {replaced} the target {plan.target.database}.{plan.target.name}"]


def has_same_results(old: StreamPlan, new: StreamPlan) -> bool:
    """Return True if two streams have the same query, and write its results to the same columns and subtables."""
    return (
        old.query.at(0) == new.query.at(0)
        and (old.source.id, old.source_subtable, old.target.id) == (new.source.id, new.source_subtable, new.target.id)
        and (old.columns, old.groups) == (new.columns, new.groups)
    )


def only_alterable_differ(old: StreamOptions, new: StreamOptions) -> bool:
    """Return True if two streams differ at most in options that ALTER STREAM can change, or that only matter at creation."""
    ignored = dict.fromkeys((*ALTERABLE_OPTIONS, "fill_history", "fill_history_async"))
    return all(getattr(old, field.name) == getattr(new, field.name) for field in fields(old) if field.name not in ignored)


def option_changes(old: StreamOptions, new: StreamOptions) -> tuple[str, ...]:
    changes = []
    for field in fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            name = OPTION_TEXTS.get(field.name, field.name.upper())
            changes.append(f"{name} {option_text(before)} → {option_text(after)}")
    return tuple(changes)


def option_text(value: object) -> str:
    return "unset" if value is None else str(int(value)) if isinstance(value, bool) else str(value)


def plan_differences(old: StreamPlan, new: StreamPlan) -> tuple[str, ...]:
    """Return the lines of two plans that differ, with `-` or `+` before them."""
    lines = difflib.ndiff(plan_lines(old), plan_lines(new))
    changed = [line for line in lines if line.startswith(("-", "+"))]
    return (*option_changes(old.options, new.options), *changed) or ("the source's columns have changed",)


def plan_lines(plan: StreamPlan) -> list[str]:
    """Return what a stream reads, computes and writes."""
    keys = ", ".join(f"{tag.name} {tag.type}" for tag in plan.groups.tags)
    return [
        f"source {plan.source.database}.{plan.source_subtable or plan.source.name}",
        f"target {plan.target.database}.{plan.target.name} ({', '.join(plan.columns)})",
        f"subtables by {plan.groups.kind.value}{f', tags {keys}' if keys else ''}",
        *explain(plan.query),
    ]
