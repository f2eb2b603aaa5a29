"""Integrity rules between the catalog's tables, and their errors.

A name belongs to one table or subtable of its database. The two live in different tables of the catalog, so a transaction that adds
or removes one first locks the row of its database (`hold_databases`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, and_, select

from headrace.catalog.rows.functions import FUNCTIONS, PIPE_PLUGINS
from headrace.catalog.rows.jobs import JOBS, definition_from_row
from headrace.catalog.rows.tables import COLUMN_REFERENCES, DATABASES, SUBTABLES, TABLES, reference_from_row
from headrace.catalog.store import is_among
from headrace.errors import ExistsError, IntegrityError, InvalidStreamError, NotFoundError
from headrace.model.jobs import DesiredState, JobDefinition, JobState
from headrace.model.pipes import DEFAULT_PLUGINS, OTHER_NAMES, Pipe, PipeStage, without_prefix
from headrace.model.spelling import did_you_mean
from headrace.model.tables import TableId
from headrace.model.tree_status import TreeStatus

# Names searched for the nearest one; more would make the error slow with millions of subtables.
NEAR_NAMES: Final = 2_000
MAX_DEPENDENTS: Final = 5


def not_found(kind: str, name: str, existing: Iterable[str]) -> NotFoundError:
    hint = did_you_mean(name, existing, f"SHOW {kind.upper()}S lists what there is")
    return NotFoundError(f"{kind} {name} does not exist", hint=hint)


def exists(kind: str, name: str, hint: str = "use IF NOT EXISTS, or another name") -> ExistsError:
    """Return the error for a name that is taken."""
    return ExistsError(f"{kind} {name} exists already", hint=hint)


def hold_databases(connection: Connection, *names: str) -> None:
    """Lock these databases until the transaction ends; raise `NotFoundError` if one is missing."""
    sorted_names = sorted(set(names))
    locked_rows = select(DATABASES.c.name).where(DATABASES.c.name.in_(sorted_names)).order_by(DATABASES.c.name).with_for_update()
    existing = set(connection.scalars(locked_rows))
    for name in sorted_names:
        if name not in existing:
            raise missing_database(connection, name)


def require_database(connection: Connection, name: str) -> None:
    """Raise `NotFoundError` unless there is a database of that name."""
    if connection.scalar(select(DATABASES.c.name).where(DATABASES.c.name == name)) is None:
        raise missing_database(connection, name)


def missing_database(connection: Connection, name: str) -> NotFoundError:
    return not_found("database", name, connection.scalars(select(DATABASES.c.name)))


def has_table(connection: Connection, database: str, name: str) -> bool:
    query = select(TABLES.c.name).where(TABLES.c.database == database, TABLES.c.name == name)
    return connection.scalar(query) is not None


def require_table(connection: Connection, database: str, name: str) -> None:
    """Raise `NotFoundError` unless there is a table of that name."""
    if not has_table(connection, database, name):
        require_database(connection, database)
        raise missing_table(connection, database, name)


def missing_table(connection: Connection, database: str, name: str) -> NotFoundError:
    tables = connection.scalars(select(TABLES.c.name).where(TABLES.c.database == database)).all()
    subtables = connection.scalars(select(SUBTABLES.c.name).where(SUBTABLES.c.database == database).limit(NEAR_NAMES)).all()
    return not_found("table", f"{database}.{name}", [f"{database}.{other}" for other in dict.fromkeys([*tables, *subtables])])


def refuse_crossing_jobs(connection: Connection, database: str) -> None:
    """Raise `IntegrityError` if a job connects this database with another."""
    crossing = (job for job in _definitions(connection) if database in job.databases and len(job.databases) > 1)
    _refuse(f"database {database}", crossing, "leads into or out of it")


def refuse_jobs_on(connection: Connection, table: TableId) -> None:
    """Raise `IntegrityError` if a job reads or writes a table."""
    users = (job for job in _definitions(connection) if table in job.tables)
    _refuse(f"table {table}", users, "reads or fills it")


def refuse_jobs_using(connection: Connection, table: TableId, columns: Iterable[str], *, fills: bool = True) -> None:
    """Raise `IntegrityError` if a job reads one of these columns or tags of a table, or writes one if `fills`."""
    names = set(columns)
    for job in _definitions(connection) if names else ():
        used = names & used_columns(job, table, names, fills=fills)
        if used:
            raise IntegrityError(
                f"column {min(used)} of {table} is needed by {job.kind} {job}", hint=f"DROP {job.kind.upper()} {job} first"
            )


def used_columns(definition: JobDefinition, table: TableId, names: set[str], *, fills: bool) -> set[str]:
    """Return the columns and tags of a table that a job reads, or writes if `fills`; any of `names` if it does not say."""
    schema = definition.schema
    if schema is None:
        return names if table in definition.tables and (fills or table != definition.target) else set()
    used = {reference.origin_column for reference in schema.references if reference.origin == table}
    if table == definition.source:
        used.update(schema.reads)
    if fills and table == definition.target:
        used.update(schema.fills)
    return used


def refuse_jobs_on_series(connection: Connection, database: str, names: Collection[str]) -> None:
    """Raise `IntegrityError` if a job over a virtual table reads one of these subtables, of a stored or of the virtual table."""
    for job in _definitions(connection):
        read: set[tuple[str, str]] = set()
        for reference in job.schema.references if job.schema is not None and job.virtual is not None else ():
            read |= {(job.source.database, reference.series), (reference.origin.database, reference.origin_series)}
        for name in names:
            if (database, name) in read:
                _refuse(f"table {database}.{name}", [job], "reads it")


def refuse_references(
    connection: Connection,
    database: str,
    *,
    table: str | None = None,
    series: Collection[str] | None = None,
    columns: Collection[str] | None = None,
) -> None:
    """Raise `IntegrityError` if a virtual table has columns from a database, or from a table, subtables or columns of it.

    If all of a database goes, its own virtual tables go with it.
    """
    query = select(COLUMN_REFERENCES).where(COLUMN_REFERENCES.c.origin_database == database)
    if table is None and series is None:
        query = query.where(COLUMN_REFERENCES.c.database != database)
    if table is not None:
        query = query.where(COLUMN_REFERENCES.c.origin_table == table)
    if series is not None:
        query = query.where(is_among(connection, COLUMN_REFERENCES.c.origin_series, list(series)))
    if columns is not None:
        query = query.where(is_among(connection, COLUMN_REFERENCES.c.origin_column, list(columns)))
    order = (COLUMN_REFERENCES.c.database, COLUMN_REFERENCES.c.series, COLUMN_REFERENCES.c.column)
    rows = connection.execute(query.order_by(*order).limit(MAX_DEPENDENTS + 1)).mappings().all()
    if not rows:
        return
    names = dict.fromkeys(f"{row['database']}.{row['series']}.{row['column']}" for row in rows)
    raise IntegrityError(
        f"{reference_from_row(rows[0])} cannot be dropped: columns of virtual tables refer to it: {listed(names)}",
        hint="ALTER VTABLE … ALTER COLUMN … SET NULL, or DROP VTABLE first",
    )


def refuse_users(connection: Connection, table: TableId, refusal: str) -> None:
    """Raise `IntegrityError`, which begins with `refusal`, if a job reads or fills a table, or a virtual table refers to it."""
    jobs = [f"{job.kind} {job}" for job in _definitions(connection) if table in job.tables]
    origin = and_(COLUMN_REFERENCES.c.origin_database == table.database, COLUMN_REFERENCES.c.origin_table == table.name)
    series = select(COLUMN_REFERENCES.c.database, COLUMN_REFERENCES.c.series).where(origin).distinct()
    order = (COLUMN_REFERENCES.c.database, COLUMN_REFERENCES.c.series)
    rows = connection.execute(series.order_by(*order).limit(MAX_DEPENDENTS + 1))
    users = [*jobs, *(f"virtual table {row.database}.{row.series}" for row in rows)]
    if users:
        raise IntegrityError(
            f"{refusal}: the table is used by {listed(users)}",
            hint="DROP these first, or ADD COLUMN under the new name and write to it",
        )


def refuse_jobs_calling(connection: Connection, function: str) -> None:
    """Raise `IntegrityError` if a job calls a registered function. The spelling of its name shows its dialect."""
    users = [job for job, _ in _callers(connection, function)]
    if users:
        raise IntegrityError(
            f"function {function} cannot be dropped: {_call_text(users)} it", hint="DROP these first, or create another function"
        )


def require_resting_callers(connection: Connection, function: str) -> list[JobDefinition]:
    """Return the jobs that call a registered function; raise `IntegrityError` if one of them is neither PAUSED nor STOPPED.

    A job at rest is planned again when it resumes, and then calls the new version.
    """
    callers = list(_callers(connection, function))
    running = [job for job, is_at_rest in callers if not is_at_rest]
    if running:
        raise IntegrityError(
            f"function {function} cannot be replaced: {_call_text(running)} it",
            hint=f"PAUSE {running[0].kind.upper()} {running[0]} first, and RESUME it then",
        )
    return [job for job, _ in callers]


def _callers(connection: Connection, function: str) -> Iterator[tuple[JobDefinition, bool]]:
    """Yield the jobs that call a function, and whether each is at rest, or asked to be."""
    for row in connection.execute(select(JOBS).order_by(JOBS.c.name)).mappings():
        job = definition_from_row(row)
        if function in job.functions:
            is_paused = row["desired"] == DesiredState.PAUSED or row["state"] == JobState.PAUSED
            yield job, is_paused or row["state"] == JobState.STOPPED


def _call_text(jobs: Sequence[JobDefinition]) -> str:
    return f"{listed(f'{job.kind} {job}' for job in jobs)} {'calls' if len(jobs) == 1 else 'call'}"


def refuse_pipes_using(connection: Connection, plugin: str) -> None:
    """Raise `IntegrityError` if a stage of a pipe uses a plugin, given in upper case."""
    for job in _definitions(connection):
        for stage in () if job.pipe is None else PipeStage:
            if _plugin_name(job.stages, stage).upper() == plugin:
                message = f"PipePlugin '{plugin}' is already used by Pipe '{job.name}' as a {stage}."
                raise IntegrityError(message, hint=f"DROP PIPE {job.name} first").with_status(TreeStatus.DROP_PIPE_PLUGIN_ERROR)


def _plugin_name(pipe: Pipe, stage: PipeStage) -> str:
    """Return the name of the plugin that a stage of a pipe uses, as typed."""
    names = {without_prefix(key): value for key, value in sorted(pipe.stage(stage).items())}
    return names.get(OTHER_NAMES[stage], names.get(stage.value, DEFAULT_PLUGINS[stage]))


def require_functions(connection: Connection, definition: JobDefinition) -> None:
    """Hold the functions that a job calls until the transaction ends; raise `NotFoundError` if one was dropped since."""
    query = select(FUNCTIONS.c.name).where(FUNCTIONS.c.name.in_(definition.functions))
    held = set(connection.scalars(query.with_for_update(read=True))) if definition.functions else set()
    for name in definition.functions:
        if name not in held:
            raise NotFoundError(f"function {name} does not exist any more", hint="SHOW FUNCTIONS lists what there is")


def require_plugins(connection: Connection, names: Collection[str]) -> None:
    """Hold registered plugins of pipes until the transaction ends; raise `NotFoundError` if one was dropped since."""
    query = select(PIPE_PLUGINS.c.name).where(PIPE_PLUGINS.c.name.in_(names))
    held = set(connection.scalars(query.with_for_update(read=True))) if names else set()
    for name in sorted(set(names) - held):
        message = f"PipePlugin {name} does not exist any more"
        raise NotFoundError(message, hint="SHOW PIPEPLUGINS lists what there is").with_status(TreeStatus.PIPE_ERROR)


def listed(names: Iterable[str]) -> str:
    """Return a few names for a message."""
    shown = list(names)
    return ", ".join(shown[:MAX_DEPENDENTS]) + (", …" if len(shown) > MAX_DEPENDENTS else "")


def refuse_rival(connection: Connection, definition: JobDefinition) -> None:
    """Raise `InvalidStreamError` if another job writes to the target of a new one."""
    target = definition.target
    if target is None:
        return
    fills = and_(JOBS.c.target_database == target.database, JOBS.c.target_table == target.name)
    rival = connection.scalar(select(JOBS.c.name).where(fills))
    if rival is not None:
        raise target_taken(rival, target.name)


def target_taken(rival: str, target: str) -> InvalidStreamError:
    """Return the error for a target that another stream fills."""
    return InvalidStreamError(f"the stream {rival} writes to {target} already", hint="one table takes the results of one stream")


def _definitions(connection: Connection) -> Iterator[JobDefinition]:
    """Yield every job by name. Their sources are JSON, so conditions on them are Python's."""
    for row in connection.execute(select(JOBS).order_by(JOBS.c.name)).mappings():
        yield definition_from_row(row)


def _refuse(described_object: str, jobs: Iterable[JobDefinition], why: str) -> None:
    job = next(iter(jobs), None)
    if job is not None:
        hint = f"DROP {job.kind.upper()} {job} first"
        raise IntegrityError(f"{described_object} cannot be dropped: {job.kind} {job} {why}", hint=hint)
