"""Streams: create, drop, pause and resume them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import ExistsError
from headrace.model.statements import CreateStream, DropStream, PauseStream, ResumeStream
from headrace.model.streams import TriggerMode
from headrace.service.describing import explain_plan, indent
from headrace.service.estimates import ExecutionSettings, HistoryEstimate, describe_execution, estimate_history
from headrace.service.names import database_of, find_stream
from headrace.service.results import Result
from headrace.service.rights import Action, Right, table_securable
from headrace.service.stage import DONE, Stage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.jobs import NotifyAirflow, ReactivateJob, RemoveJob, SuspendJob, notify
from headrace.service.topics.replacements import replace_stream
from headrace.service.topics.stream_definitions import define_stream, explain_target, plan_securable, table_rights
from headrace.streams.definition.define import StreamPlan
from headrace.streams.kind import STREAM
from headrace.streams.sources.stored import count_rows


@dataclass(frozen=True, slots=True)
class RecordStream(Stage):
    """Create a stream, its target if missing, and its start offsets."""

    plan: StreamPlan
    if_not_exists: bool
    settings: ExecutionSettings

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.CREATE, plan_securable(self.plan)), *table_rights(self.plan))

    def describe(self) -> list[str]:
        plan, options = self.plan, self.plan.options
        recalculation = "mark their windows" if plan.defers_changes else "recalculate their windows"
        statistics = [
            f"trigger {options.trigger.value}",
            f"results {describe_emission(plan)}",
            f"watermark {options.watermark}",
            f"expired rows {'ignored and counted' if options.ignore_expired else recalculation}",
            f"updates {'count as new rows' if plan.ignores_updates else recalculation}",
        ]
        head = f"maintain stream {plan.database}.{plan.name} on changes of {', '.join(map(str, plan.sources))}"
        execution = describe_execution(plan, self.settings)
        return [explain_target(plan), head, *indent([*statistics, *execution]), *explain_plan(plan.query)]

    def apply(self, session: SessionState) -> Result:
        from headrace.streams.lifecycle import create

        context, plan = session.context, self.plan
        now, snode = context.clock.now(), context.settings.snode
        definition = plan.definition(created=now, snode=snode, dialect=session.dialect, owner=session.user)
        create(context, plan, definition, if_not_exists=self.if_not_exists)
        return DONE


@dataclass(frozen=True, slots=True)
class FillHistory(Stage):
    """Announce a stream's history: the estimated numbers of stored rows and of chunks, and what they take.

    A driver or Airflow backfills it, up to the version in the stream's record.
    """

    plan: StreamPlan
    rows: int
    chunks: int
    estimate: HistoryEstimate

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.READ, table_securable(self.plan.source)), Right(Action.WRITE, table_securable(self.plan.target)))

    def describe(self) -> list[str]:
        return [f"fill history: {self.rows} stored rows in about {self.chunks} chunks, on Spark", f"  {self.estimate.text}"]

    def apply(self, _: SessionState) -> Result:
        """Do nothing: the stream's record already says what its history is, and a driver or Airflow backfills it."""
        return DONE


def plan_create_stream(statement: CreateStream, session: PlanningContext) -> list[Stage]:
    """Plan CREATE STREAM: record the definition, and fill the history if asked for."""
    context, database = session.context, database_of(statement.name, session)
    existing = find_stream(statement.name, session, missing_ok=True)
    if existing is not None and statement.or_replace:
        return replace_stream(statement, existing, session)
    if existing is not None:
        if statement.if_not_exists:
            return []
        raise ExistsError(
            f"stream {database}.{statement.name.name} already exists",
            hint="use IF NOT EXISTS, CREATE OR REPLACE STREAM, or another name",
            span=statement.name.span,
        )
    settings = context.settings
    stream = define_stream(statement, session)
    execution = ExecutionSettings(settings.kernels, settings.driver_rows, settings.wide_commit_rows)
    stages: list[Stage] = [RecordStream(stream, statement.if_not_exists, execution)]
    if stream.options.fill_history:
        rows = count_rows(context, stream.sources)
        chunks = max(1, -(-rows // settings.chunk_rows))
        stages.append(FillHistory(stream, rows, chunks, estimate_history(context, stream, rows)))
    return [*stages, NotifyAirflow(STREAM, database, statement.name.name)]


def plan_drop_stream(statement: DropStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [RemoveJob(record), notify(record)]


def plan_pause_stream(statement: PauseStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [SuspendJob(record)]


def plan_resume_stream(statement: ResumeStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [ReactivateJob(record, statement.ignore_untreated), notify(record, resumed=True)]


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
