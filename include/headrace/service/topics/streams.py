"""Streams: create, drop, pause and resume them; REPLAY and DROP QUARANTINE."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import ExistsError
from headrace.model.job_parts import part_ids
from headrace.model.quarantine import QuarantineRequest
from headrace.model.statements import CreateStream, DropQuarantine, DropStream, PauseStream, ReplayStream, ResumeStream
from headrace.model.streams import TriggerMode
from headrace.model.tables import Name
from headrace.service.describing import explain_plan, indent
from headrace.service.estimates import describe_execution, describe_history
from headrace.service.job_cycles import recording_stream
from headrace.service.names import find_stream, streams_named
from headrace.service.results import Result
from headrace.service.rights import Action, Right, job_securable, on_job, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.jobs import notify_airflow, reactivate_job, remove_job, suspend_job
from headrace.service.topics.replacements import replace_stream
from headrace.service.topics.stream_definitions import define_stream, explain_target, plan_securable, stream_rights
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import count_rows


def plan_create_stream(statement: CreateStream, session: PlanningContext) -> list[Stage]:
    """Plan CREATE STREAM: record the definition, and fill the history if asked for."""
    name = replace(statement.name, database=statement.name.database or session.database or statement.target.database)
    existing = find_stream(name, session, missing_ok=True)
    if existing is not None and statement.or_replace:
        return replace_stream(statement, existing, session)
    if existing is not None:
        if statement.if_not_exists:
            return []
        raise ExistsError(
            f"stream {existing.definition} already exists",
            hint="use IF NOT EXISTS, CREATE OR REPLACE STREAM, or another name",
            span=statement.name.span,
        )
    stream = define_stream(statement, session)
    history = [announce_history(stream, session)] if stream.options.fill_history else []
    recorded = record_stream(stream, session, if_not_exists=statement.if_not_exists)
    return [recorded, *history, notify_airflow(plan_securable(stream))]


def record_stream(plan: StreamPlan, planning: PlanningContext, *, if_not_exists: bool) -> Stage:
    """Create a stream, its target if missing, and its start offsets."""

    def apply(session: SessionState) -> None:
        from headrace.streams.lifecycle import create

        now, snode = session.context.clock.now(), session.context.settings.snode
        definition = plan.definition(created=now, snode=snode, dialect=session.dialect, owner=session.record_owner())
        with recording_stream(plan, session.context):
            create(session.context, plan, definition, if_not_exists=if_not_exists)

    def describe() -> list[str]:
        options = plan.options
        recalculation = "mark their windows" if plan.defers_changes else "recalculate their windows"
        statistics = [
            f"trigger {options.trigger.value}",
            f"results {describe_emission(plan)}",
            f"watermark {options.watermark}",
            f"expired rows {'ignored and counted' if options.ignore_expired else recalculation}",
            f"updates {'count as new rows' if plan.ignores_updates else recalculation}",
            *([f"divided into {options.partitions} parts by subtable"] if options.partitions > 1 else []),
        ]
        head = f"maintain stream {plan.database}.{plan.name} on changes of {', '.join(map(str, plan.sources))}"
        return [
            explain_target(plan),
            head,
            *indent([*statistics, *describe_execution(plan, planning.context.settings)]),
            *explain_plan(plan.query),
        ]

    return Stage((Right(Action.CREATE, plan_securable(plan)), *stream_rights(plan, planning)), describe, apply)


def announce_history(plan: StreamPlan, session: PlanningContext) -> Stage:
    """Announce a stream's history: about how much it is, and what it takes.

    Nothing is to be done: the stream's record says what its history is, and a driver or Airflow backfills it.
    """
    rows = count_rows(session.context, plan.sources)
    chunks = max(1, -(-rows // session.context.settings.chunk_rows))
    estimate = describe_history(session.context, plan, rows)
    described = [f"fill history: {rows} stored rows in about {chunks} chunks, on Spark", f"  {estimate}"]
    rights = (*on_table(Action.READ, plan.source), *on_table(Action.WRITE, plan.target))
    return Stage(rights, lambda: described, lambda _: None)


def nothing_to_do(name: Name, session: PlanningContext) -> Stage:
    """Return the stage of a statement with IF EXISTS about a stream that does not exist, which it says."""
    database = name.database or session.database
    others = [str(record.definition) for record in streams_named(name.name, session)]
    note = f"stream {database + '.' if database else ''}{name.name} does not exist, so nothing was done"
    note += f"; there is {', '.join(others)}" if others else ""
    return Stage((), lambda: [note], lambda _: Result(note=note))


def plan_drop_stream(statement: DropStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return (
        [nothing_to_do(statement.name, session)]
        if record is None
        else [remove_job(record.definition), notify_airflow(job_securable(record.definition), dropped=True)]
    )


def plan_pause_stream(statement: PauseStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [nothing_to_do(statement.name, session)] if record is None else [suspend_job(record)]


def plan_resume_stream(statement: ResumeStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    if record is None:
        return [nothing_to_do(statement.name, session)]
    resumed = reactivate_job(record, ignore_untreated=statement.ignore_untreated)
    return [resumed, notify_airflow(job_securable(record.definition), resumed=True)]


def describe_emission(plan: StreamPlan) -> str:
    options, unit = plan.options, "row" if plan.query.window is None else "window"
    match options.trigger:
        case TriggerMode.AT_ONCE:
            return f"whenever a {unit} changes"
        case TriggerMode.MAX_DELAY:
            return f"when event time closes a window, and at the latest {options.max_delay} after it has changed"
        case TriggerMode.CONTINUOUS_WINDOW_CLOSE:
            return f"when event time closes a window; later changes after {options.recalculation_interval}"
        case TriggerMode.FORCE_WINDOW_CLOSE:
            what = "for each point" if plan.query.interp is not None else "at the end of each window"
            return f"by the clock, once, {what} plus the watermark delay"
        case _:
            return "when event time closes a window, and again when it changes"


def plan_replay_stream(statement: ReplayStream, session: PlanningContext) -> list[Stage]:
    """Plan REPLAY QUARANTINE: have the rows in quarantine processed again."""
    return request_quarantine(statement, QuarantineRequest.REPLAY, session)


def plan_drop_quarantine(statement: DropQuarantine, session: PlanningContext) -> list[Stage]:
    """Plan DROP QUARANTINE: have the rows in quarantine left out for good."""
    return request_quarantine(statement, QuarantineRequest.DROP, session)


def request_quarantine(
    statement: ReplayStream | DropQuarantine, request: QuarantineRequest, session: PlanningContext
) -> list[Stage]:
    """Plan a request to a stream about its rows in quarantine. One that does not run serves it when it is resumed."""
    record = find_stream(statement.name, session, statement.if_exists)
    if record is None:
        return [nothing_to_do(statement.name, session)]
    job, counts = record.definition, session.context.catalog.quarantine.counts()
    rows = sum(counts.get(id, 0) for id in part_ids(job))

    def apply(session: SessionState) -> Result:
        """Ask the stream's driver, which does it as a micro-batch of its own; `affected` is the number of rows."""
        for id in part_ids(job) if rows else ():
            session.context.catalog.quarantine.request(id, request, session.context.clock.now())
        return Result(affected=rows)

    subject = f"{rows} rows in quarantine of stream {job}"
    replays = request is QuarantineRequest.REPLAY
    described = f"process {subject} again" if replays else f"drop {subject}: its results leave them out for good"
    return [Stage(on_job(Action.OPERATE, job), lambda: [described], apply)]
