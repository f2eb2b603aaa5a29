"""What holds between the catalog's tables, and the errors that name what is missing or in the way.

A name stands for one table or subtable of its database. The two live in different tables of the catalog, so whoever adds or
removes one first holds the row of its database (`hold_databases`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from headrace.catalog.rows import DATABASES, JOBS, SUBTABLES, TABLES, jobs
from headrace.errors import ExistsError, IntegrityError, InvalidStreamError, NotFoundError
from headrace.model.jobs import JobDefinition

# Names looked through for the nearest one; more would make the error slow where there are millions of subtables.
NEAR_NAMES: Final = 2_000


def missing(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    """The error for a name that does not exist, with the nearest that does."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else f"SHOW {kind.upper()}S lists what there is"
    return NotFoundError(f"{kind} {name} does not exist", hint=hint)


def exists(kind: str, name: str, hint: str = "use IF NOT EXISTS, or another name") -> ExistsError:
    """The error for a name that is taken."""
    return ExistsError(f"{kind} {name} exists already", hint=hint)


def hold_databases(connection: Connection, *names: str) -> None:
    """Lets nobody else change what is in these databases until the transaction ends; `NotFoundError` when one is missing."""
    wanted = sorted(set(names))
    held = select(DATABASES.c.name).where(DATABASES.c.name.in_(wanted)).order_by(DATABASES.c.name).with_for_update()
    found = set(connection.scalars(held))
    for name in wanted:
        if name not in found:
            raise missing_database(connection, name)


def require_database(connection: Connection, name: str) -> None:
    """`NotFoundError` unless there is a database of that name."""
    if connection.scalar(select(DATABASES.c.name).where(DATABASES.c.name == name)) is None:
        raise missing_database(connection, name)


def missing_database(connection: Connection, name: str) -> NotFoundError:
    return missing("database", name, connection.scalars(select(DATABASES.c.name)))


def has_table(connection: Connection, database: str, name: str) -> bool:
    query = select(TABLES.c.name).where(TABLES.c.database == database, TABLES.c.name == name)
    return connection.scalar(query) is not None


def require_table(connection: Connection, database: str, name: str) -> None:
    """`NotFoundError` unless there is a table of that name."""
    if not has_table(connection, database, name):
        require_database(connection, database)
        raise missing_table(connection, database, name)


def missing_table(connection: Connection, database: str, name: str) -> NotFoundError:
    """The error for a table or subtable that a database lacks."""
    tables = connection.scalars(select(TABLES.c.name).where(TABLES.c.database == database)).all()
    subtables = connection.scalars(select(SUBTABLES.c.name).where(SUBTABLES.c.database == database).limit(NEAR_NAMES)).all()
    return missing("table", f"{database}.{name}", [f"{database}.{other}" for other in dict.fromkeys([*tables, *subtables])])


def refuse_crossing_streams(connection: Connection, database: str) -> None:
    """`IntegrityError` when a stream leads from this database to another or the other way round."""
    places = (JOBS.c.database, JOBS.c.source_database, JOBS.c.target_database)
    touches = or_(*(place == database for place in places))
    inside = and_(*(place == database for place in places))
    _refuse(connection, f"database {database}", and_(touches, ~inside), "leads into or out of it")


def refuse_streams_on(connection: Connection, database: str, table: str) -> None:
    """`IntegrityError` when a stream reads or fills a table."""
    _refuse(connection, f"table {database}.{table}", or_(*_on(database, table)), "reads or fills it")


def refuse_streams_using(connection: Connection, database: str, table: str, columns: Iterable[str]) -> None:
    """`IntegrityError` when a stream reads or fills one of these columns or tags of a table."""
    names = set(columns)
    if not names:
        return
    for row in connection.execute(select(JOBS).where(or_(*_on(database, table)))).mappings():
        definition = jobs.from_row(row).definition
        used = names & used_columns(definition, database, table, names)
        if used:
            stream = f"{definition.database}.{definition.name}"
            raise IntegrityError(
                f"column {min(used)} of {database}.{table} is needed by stream {stream}", hint=f"DROP STREAM {stream} first"
            )


def used_columns(definition: JobDefinition, database: str, table: str, names: set[str]) -> set[str]:
    """Those columns and tags of a table that a stream reads or fills; any of `names` where it does not say."""
    schema = definition.schema
    if schema is None:
        return names
    used: set[str] = set()
    if (definition.source_database, definition.source_table) == (database, table):
        used.update(schema.reads)
    if (definition.target_database, definition.target_table) == (database, table):
        used.update(schema.fills)
    return used


def refuse_rival(connection: Connection, definition: JobDefinition) -> None:
    """`InvalidStreamError` when another stream fills the target of a new one."""
    fills = and_(JOBS.c.target_database == definition.target_database, JOBS.c.target_table == definition.target_table)
    rival = connection.scalar(select(JOBS.c.name).where(fills))
    if rival is not None:
        raise target_taken(rival, definition.target_table)


def target_taken(rival: str, target: str) -> InvalidStreamError:
    """The error for a target that another stream fills."""
    return InvalidStreamError(f"the stream {rival} writes to {target} already", hint="one table takes the results of one stream")


def _on(database: str, table: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    reads = and_(JOBS.c.source_database == database, JOBS.c.source_table == table)
    fills = and_(JOBS.c.target_database == database, JOBS.c.target_table == table)
    return reads, fills


def _refuse(connection: Connection, what: str, condition: ColumnElement[bool], why: str) -> None:
    row = connection.execute(select(JOBS.c.database, JOBS.c.name).where(condition).order_by(JOBS.c.name).limit(1)).first()
    if row is not None:
        stream = f"{row.database}.{row.name}"
        raise IntegrityError(f"{what} cannot be dropped: stream {stream} {why}", hint=f"DROP STREAM {stream} first")
