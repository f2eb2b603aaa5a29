"""Streams: create, drop, pause and resume them; REPLAY and DROP QUARANTINE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.errors import ExistsError
from headrace.model.job_parts import part_ids
from headrace.model.quarantine import QuarantineRequest
from headrace.model.statements import CreateStream, DropQuarantine, DropStream, PauseStream, ReplayStream, ResumeStream
from headrace.model.streams import TriggerMode
from headrace.model.tables import Name
from headrace.service.describing import explain_plan, indent
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

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.context import Context
    from headrace.settings import Settings


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
        else [remove_job(record.definition), notify_airflow(job_securable(record.definition))]
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


BENCHMARK_ROWS_S: Final = 5_000_000
"""Rows per second of the history in the benchmarks, on two cores. Used until a chunk has been measured."""
TEXT_BYTES: Final = 32
"""The assumed size of a text, a list or a sketch."""
NUMBER_BYTES: Final = 8


def describe_history(context: Context, plan: StreamPlan, rows: int) -> str:
    """Describe the size of a history, from the statistics of files, and how long it takes at the rate of chunks so far."""
    from headrace.streams.sources.source_tables import source_tables

    size = sum(context.tables.size(table) for table in source_tables(context, plan.sources).values())
    measured = context.catalog.ledger.rows_per_second()
    rate = measured or BENCHMARK_ROWS_S
    origin = "of chunks so far" if measured else "of the benchmarks, as no chunk was computed here yet"
    seconds = max(1, round(rows / rate))
    return f"{size:,} bytes of files; an estimate: about {seconds} s of computing at {rate:,} rows/s, the rate {origin}"


def describe_execution(plan: StreamPlan, settings: Settings) -> list[str]:
    """Return lines on what computes a stream's micro-batches, and on the size of its state."""
    if plan.is_closed_by_clock:
        return ["state: no windows; each is computed from the stored rows of its range"]
    schema, problem = kernel_schema(plan)
    if settings.kernels == "never":
        problem = problem or "HEADRACE_KERNELS is never"
    if problem is not None:
        how = f"micro-batches by Spark SQL, a job each ({problem})"
    else:
        how = "micro-batches in the driver, by kernels"
        if plan.query.window is not None:
            how += f"; commits of more than {settings.driver_rows:,} rows {describe_large_commits(plan, settings)}"
    return [how, describe_state(plan, schema)]


def describe_large_commits(plan: StreamPlan, settings: Settings) -> str:
    """Return how commits that do not fit in the driver are computed."""
    from headrace.streams.wide.commits import can_be_wide

    if not can_be_wide(plan):
        return "in pieces if no row is late"
    return f"in pieces, of more than {settings.wide_commit_rows:,} rows by Spark's executors"


def kernel_schema(plan: StreamPlan) -> tuple[pa.Schema | None, str | None]:
    """Return the columns of a window in state if kernels know the query, else why they do not."""
    from headrace.compute.columnar import ProjectionKernel, UnsupportedError
    from headrace.streams.windows.evaluation import KernelEvaluation, source_schema

    try:
        if plan.query.window is not None:
            return KernelEvaluation.compile(plan).windows.schema, None
        ProjectionKernel.compile(plan.query, {field.name: field.type for field in source_schema(plan)})
        return None, None
    except UnsupportedError as error:
        return None, f"kernels do not know {error}"


def describe_state(plan: StreamPlan, schema: pa.Schema | None) -> str:
    from headrace.compute.windows import window_columns

    if plan.query.window is None:
        return "state: none"
    columns, calls = window_columns(plan.query), plan.query.groups.calls
    rows = plan.query.lists | {call.rows for call in calls if call.rule.merge is None}
    sizes = [
        NUMBER_BYTES if schema is None or name not in schema.names else type_bytes(schema.field(name).type)
        for name in columns
        if name not in rows
    ]
    more = ", and the values of its rows" if rows else ""
    return f"state: about {sum(sizes)} bytes for each open window of a group ({len(columns)} columns){more}"


def type_bytes(type_: pa.DataType) -> int:
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return TEXT_BYTES
