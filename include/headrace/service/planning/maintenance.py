"""Plans statements that maintain the files of databases."""

from __future__ import annotations

from headrace.errors import DataError
from headrace.model.statements import MaintainDatabase
from headrace.model.tables import Database
from headrace.model.types import TIMESTAMP
from headrace.service.database_stages import CompactDatabase
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.stages import Stage
from headrace.storage import Bounds
from headrace.storage.values.scalars import InvalidValueError, TimeContext, to_stored


def maintain_database(statement: MaintainDatabase, session: PlanningContext) -> list[Stage]:
    """Plan COMPACT DATABASE and FLUSH DATABASE. Writes are durable when they return, so nothing is left to flush."""
    database = session.context.catalog.databases.get(statement.name.name)
    return [CompactDatabase(database.name, compacted_range(statement, database, session))] if statement.compact else []


def compacted_range(statement: MaintainDatabase, database: Database, session: PlanningContext) -> Bounds | None:
    """Return the range of COMPACT DATABASE as stored; None for all times."""
    if statement.start is None and statement.end is None:
        return None
    context = TimeContext(session.context.clock.now(), database.timezone, database.precision)
    try:
        ends = [None if end is None else to_stored(end, TIMESTAMP, context) for end in (statement.start, statement.end)]
    except InvalidValueError as error:
        raise DataError("START WITH or END WITH is no instant", hint=f"give it {error}", span=statement.span) from None
    everything = Bounds.of_ticks(None, None, database.precision)
    start, end = (end if isinstance(end, int) else None for end in ends)
    return Bounds(everything.low if start is None else start, everything.high if end is None else end)
