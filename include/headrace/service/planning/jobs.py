"""Plan work that no statement expresses: loading files, backfilling a range of a stream or continuous query, verifying."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError
from headrace.model.instants import parse_instant
from headrace.model.jobs import JobDefinition
from headrace.model.progress import Progress, no_progress
from headrace.model.statements import Select
from headrace.model.tables import Table, TableKind
from headrace.model.time import Precision
from headrace.model.tree_statements import TreeSelect
from headrace.service.names import database_of, parse_name, refuse_virtual
from headrace.service.planning.continuous_queries import find
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext
from headrace.service.topics.queries import bind_query, reads_system_tables
from headrace.service.topics.trees.loads import LoadTree, find_tree_target
from headrace.service.topics.trees.queries import plan_tree_verification
from headrace.service.work_stages import Backfill, BackfillQuery, LoadFiles, VerifyContinuousQuery, VerifyQuery, VerifyStream
from headrace.sql import parse
from headrace.streams.kind import STREAM


def plan_load(
    session: PlanningContext,
    files: Sequence[Path],
    into: str,
    subtable: str | None = None,
    *,
    device: str | None = None,
    aligned: bool = False,
    file_format: str | None = None,
    progress: Progress = no_progress,
) -> list[Stage]:
    """Plan to load files into a plain table, a subtable, a supertable whose subtables a column `tbname` names, or a tree.

    Raises:
        NotFoundError: A file, the table or the subtable does not exist.
    """
    size = sum(file_size(path) for path in files)
    if (target := find_tree_target(session, into, device)) is not None:
        if subtable is not None:
            raise ProgrammingError(f"{into} is in a tree, which has no subtables", hint="name the device of all rows: --device")
        return [*target.makers, LoadTree(target.database, tuple(files), target.device, size, aligned, file_format, progress)]
    if device is not None or aligned:
        raise ProgrammingError(f"{into} has no devices", hint="name the subtable of all rows: --subtable")
    context, name = session.context, parse_name(into)
    database = context.catalog.databases.get(database_of(name, session))
    existing = context.catalog.subtables.find(database.name, [name.name]).get(name.name)
    table = context.catalog.tables.get(database.name, existing.table if existing else name.name)
    refuse_virtual(table, name)
    rows_subtable = find_row_subtable(table, existing.name if existing else None, subtable, session)
    return [LoadFiles(table, database, tuple(files), rows_subtable, size, file_format, progress)]


def file_size(path: Path) -> int:
    """Return a file's size in bytes."""
    if not path.is_file():
        raise NotFoundError(f"file {path} does not exist", hint="check the path")
    return path.stat().st_size


def find_row_subtable(table: Table, target: str | None, option: str | None, session: PlanningContext) -> str | None:
    """Return the one subtable of all rows, if there is one: the target itself, or the one that the option names."""
    if table.kind is TableKind.PLAIN:
        return table.name
    if target is not None and option is not None and target != option:
        raise ProgrammingError(f"{target} is a subtable already, not a supertable", hint="leave out --subtable")
    name = target or option
    if name is not None and session.context.catalog.subtables.get(table.database, name).table != table.name:
        raise NotFoundError(f"{name} is not a subtable of {table.name}", hint=f"SHOW TABLES FROM {table.database}")
    return name


def plan_backfill(
    session: PlanningContext,
    stream: str,
    start: str | None,
    end: str | None,
    *,
    rows: int | None = None,
    progress: Progress = no_progress,
) -> list[Stage]:
    """Plan to recompute the closed windows that start in `[start, end)`; None is open."""
    definition = stream_definition(session, stream)
    database = session.context.catalog.databases.get(definition.source.database)
    first, last = parse_range(start, end, database.timezone, database.precision)
    return [Backfill(definition, first, last, rows, progress)]


def plan_query_backfill(
    session: PlanningContext, name: str, start: str | None, end: str | None, *, progress: Progress = no_progress
) -> list[Stage]:
    """Plan to execute a continuous query again for all ranges that overlap `[start, end)`; None is open."""
    from headrace.queries.executions import recomputed_instants

    definition = find(name, session.context).definition
    details = definition.continuous_query
    timezone = session.context.settings.timezone if details is None else details.timezone
    first, last = parse_range(start, end, timezone, Precision.MILLISECOND)
    instants = recomputed_instants(definition.schedule, first, last, session.context.clock.now())
    return [BackfillQuery(definition, first, last, len(instants), progress)]


def stream_definition(session: PlanningContext, stream: str) -> JobDefinition:
    """Return the definition of the stream with a name."""
    name = parse_name(stream)
    return session.context.catalog.jobs.get(database_of(name, session), name.name, STREAM).definition


def parse_range(start: str | None, end: str | None, timezone: str, precision: Precision) -> tuple[int | None, int | None]:
    """Parse the ends of a range to ticks; None is open.

    Raises:
        ProgrammingError: An end is no instant, or the range is empty.
    """
    first, last = (None if text is None else parse_tick(text, timezone, precision) for text in (start, end))
    if first is not None and last is not None and first >= last:
        raise ProgrammingError(
            f"the range from {start} to {end} is empty", hint="the end is exclusive and must lie after the start"
        )
    return first, last


def parse_tick(text: str, timezone: str, precision: Precision) -> int:
    """Parse an instant to ticks: text in a time zone, or an epoch number."""
    tick = int(text) if text.isdigit() else parse_instant(text, timezone, precision)
    if tick is None:
        raise ProgrammingError(f"{text!r} is not a timestamp", hint="write it as '2024-05-01 12:00:00', or as an epoch number")
    return tick


def plan_query_verification(session: PlanningContext, text: str, dialect: str) -> list[Stage]:
    """Plan to run a query with Spark and with DuckDB, and compare.

    Raises:
        NotSupportedError: It is not a SELECT over tables.
    """
    statement = parse(text, dialect)
    if isinstance(statement, TreeSelect):
        return [plan_tree_verification(statement.query, session, text)]
    if not isinstance(statement, Select) or reads_system_tables(statement.query):
        raise NotSupportedError("verify takes a SELECT over tables", hint="or --stream database.stream")
    plan = bind_query(statement.query, session)
    return [VerifyQuery(plan.query, plan, text)]


def plan_continuous_query_verification(session: PlanningContext, name: str, start: str | None, end: str | None) -> list[Stage]:
    """Plan to compare what a continuous query has written with what its query returns, for the executions of a range."""
    definition = find(name, session.context).definition
    details = definition.continuous_query
    timezone = session.context.settings.timezone if details is None else details.timezone
    first, last = parse_range(start, end, timezone, Precision.MILLISECOND)
    return [VerifyContinuousQuery(definition, first, last)]


def plan_stream_verification(session: PlanningContext, stream: str) -> list[Stage]:
    """Plan to compare a stream's target with what its query returns for the rows that the stream has processed."""
    return [VerifyStream(stream_definition(session, stream))]
