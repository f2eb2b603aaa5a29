"""CREATE, DROP, PAUSE and RESUME STREAM."""

from __future__ import annotations

from headrace.errors import ExistsError, NotFoundError
from headrace.model.jobs import JobRecord
from headrace.model.statements import CreateStream, DropStream, PauseStream, ResumeStream
from headrace.model.tables import Name
from headrace.service.planning.dispatch import PlanningContext, database_of
from headrace.service.stages import Announce, ContinueStream, FillHistory, HoldStream, RecordStream, RemoveStream, Stage
from headrace.streams.definition.define import define


def create_stream(statement: CreateStream, session: PlanningContext) -> list[Stage]:
    context, database = session.context, database_of(statement.name, session)
    if find_stream(statement.name, session, missing_ok=True) is not None:
        if statement.if_not_exists:
            return []
        raise ExistsError(
            f"stream {database}.{statement.name.name} already exists",
            hint="use IF NOT EXISTS, another name, or DROP STREAM first",
            span=statement.name.span,
        )
    settings = context.settings
    defined = define(statement, context.catalog, session.database, dialect=session.dialect, now=context.clock.now())
    stages: list[Stage] = [RecordStream(defined, statement.if_not_exists)]
    if statement.options.fill_history:
        rows = context.tables.rows(defined.source)
        stages.append(FillHistory(defined, rows, max(1, -(-rows // settings.chunk_rows))))
    return [*stages, Announce(database, statement.name.name)]


def drop_stream(statement: DropStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [RemoveStream(record), announcement(record)]


def pause_stream(statement: PauseStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [HoldStream(record)]


def resume_stream(statement: ResumeStream, session: PlanningContext) -> list[Stage]:
    record = find_stream(statement.name, session, statement.if_exists)
    return [] if record is None else [ContinueStream(record, statement.ignore_untreated), announcement(record, resumed=True)]


def announcement(record: JobRecord, *, resumed: bool = False) -> Announce:
    return Announce(record.definition.database, record.definition.name, resumed)


def find_stream(name: Name, session: PlanningContext, missing_ok: bool) -> JobRecord | None:
    """The stream of a name; None where it is missing and may be."""
    try:
        return session.context.catalog.jobs.get(database_of(name, session), name.name)
    except NotFoundError as error:
        if missing_ok:
            return None
        error.span = error.span or name.span
        raise
