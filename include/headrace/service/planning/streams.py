"""Plan CREATE, DROP, PAUSE, RESUME and REPLAY STREAM, and DROP QUARANTINE."""

from __future__ import annotations

from headrace.errors import ExistsError
from headrace.model.quarantine import QuarantineRequest
from headrace.model.statements import CreateStream, DropQuarantine, DropStream, PauseStream, ReplayStream, ResumeStream
from headrace.service.estimates import ExecutionSettings, estimate_history
from headrace.service.names import database_of, find_stream
from headrace.service.planning.replacements import replace_stream
from headrace.service.planning.stream_definitions import define_stream
from headrace.service.stage import Stage
from headrace.service.stages import (
    FillHistory,
    NotifyAirflow,
    ReactivateJob,
    RecordStream,
    RemoveJob,
    RequestQuarantine,
    SuspendJob,
    notify,
)
from headrace.service.state import PlanningContext
from headrace.streams.kind import STREAM
from headrace.streams.sources.stored import count_rows


def create_stream(statement: CreateStream, session: PlanningContext) -> list[Stage]:
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


def drop_stream(statement: DropStream, session: PlanningContext) -> list[Stage]:
    """Plan DROP STREAM."""
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [RemoveJob(record), notify(record)]


def pause_stream(statement: PauseStream, session: PlanningContext) -> list[Stage]:
    """Plan PAUSE STREAM."""
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [SuspendJob(record)]


def resume_stream(statement: ResumeStream, session: PlanningContext) -> list[Stage]:
    """Plan RESUME STREAM."""
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [ReactivateJob(record, statement.ignore_untreated), notify(record, resumed=True)]


def replay_stream(statement: ReplayStream, session: PlanningContext) -> list[Stage]:
    """Plan REPLAY STREAM: have the rows in quarantine processed again."""
    return request_quarantine(statement, QuarantineRequest.REPLAY, session)


def drop_quarantine(statement: DropQuarantine, session: PlanningContext) -> list[Stage]:
    """Plan DROP QUARANTINE: have the rows in quarantine left out for good."""
    return request_quarantine(statement, QuarantineRequest.DROP, session)


def request_quarantine(
    statement: ReplayStream | DropQuarantine, request: QuarantineRequest, session: PlanningContext
) -> list[Stage]:
    """Plan a request to a stream about its rows in quarantine. One that does not run serves it when it is resumed."""
    record = find_stream(statement.name, session, statement.if_exists)
    if record is None:
        return []
    rows = session.context.catalog.quarantine.counts().get(record.definition.id, 0)
    return [RequestQuarantine(record, rows, request)]
