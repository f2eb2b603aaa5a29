"""Requests of one user and database, many at once: what is wrong with each, and the rows of the others."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.doors.gate import sharing_reads
from headrace.doors.tdengine.schemaless.blocks import Block, blocks_of, field_column
from headrace.doors.tdengine.schemaless.lines import TIME
from headrace.doors.tdengine.schemaless.records import UNITS, json_records, line_records, telnet_records
from headrace.doors.tdengine.schemaless.schema import missing_subtables, prepare_table, wider
from headrace.doors.tdengine.schemaless.series import Series, series_of_json, series_of_line
from headrace.errors import (
    DataError,
    Error,
    NoDatabaseError,
    PermissionDeniedError,
    ProgrammingError,
    StaleDefinitionError,
    TransientError,
)
from headrace.model.access import Principal
from headrace.model.types import TypeKind
from headrace.pipes.formats.records import ID, Problems
from headrace.service.results import Result
from headrace.service.rights import Action, ObjectKind, Right, Securable, denied_table, on_table
from headrace.service.session import Session, with_statement
from headrace.service.stage import SessionState, Stage
from headrace.storage.types import rows_schema
from headrace.storage.values.scalars import stored_units_per_tick, tick_range

if TYPE_CHECKING:
    from headrace.model.tables import Database, Table
    from headrace.model.types import DataType

LINE: Final = "line"
TELNET: Final = "telnet"
JSON: Final = "json"
Outcome = Error | None
Unavailable = dict[str, TransientError]
"""Why tables could not be written, by name."""
OpenSession = Callable[[Principal, str], Session]
"""Opens a session of a principal in a database."""


@dataclass(frozen=True, slots=True)
class Target:
    """What requests of one group have in common: principal, database, protocol, and the unit of times in line protocol."""

    principal: Principal
    database: str
    protocol: str = LINE
    unit: str = "ns"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ProgrammingError(f"unknown precision {self.unit}", hint=f"use one of {', '.join(UNITS)}")
        if not self.database:
            raise NoDatabaseError("no database is named", hint="name it: ?db=…")


@dataclass(slots=True)
class SchemalessWriter:
    """Writes the bodies of requests. Thread-safe."""

    open_session: OpenSession
    _locks: defaultdict[tuple[str, str], threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    def write(self, target: Target, bodies: Sequence[bytes]) -> list[Outcome]:
        """Write the rows of requests to the same target; return the error of each, or None.

        A request is written whole or not at all, unless it has rows of several tables and the storage fails, or a table is locked.
        The rows of all requests to a table are one commit. A table that cannot be written now fails the requests with rows of it,
        and is not tried again.
        """
        unavailable: Unavailable = {}
        try:
            return self._write_bodies(target, bodies, unavailable)
        except TransientError as error:
            return [error] * len(bodies)
        except Error as error:
            if len(bodies) == 1:
                return [error]
        # It is the fault of one of them.
        outcomes: list[Outcome] = []
        try:
            for body in bodies:
                outcomes.append(self._write_alone(target, body, unavailable))
        except TransientError as error:
            outcomes += [error] * (len(bodies) - len(outcomes))
        return outcomes

    def _write_alone(self, target: Target, body: bytes, unavailable: Unavailable) -> Outcome:
        """Write the rows of a request. Raise `TransientError` if no other could be written either."""
        try:
            return self._write_bodies(target, [body], unavailable)[0]
        except TransientError:
            raise
        except Error as error:
            return error

    def _write_bodies(self, target: Target, bodies: Sequence[bytes], unavailable: Unavailable) -> list[Outcome]:
        """Write the rows of requests.

        Raises:
            TransientError: The catalog cannot be read; nothing is written.
            Error: Of one of them.
        """
        described = f"WRITE to {target.database}"
        with with_statement(described):
            session = self.open_session(target.principal, target.database)
            try:
                with sharing_reads(session.context):
                    return self._write(session, target, bodies, unavailable)
            except PermissionDeniedError as error:
                session.record(described, error)
                raise

    def _write(self, session: Session, target: Target, bodies: Sequence[bytes], unavailable: Unavailable) -> list[Outcome]:
        problems = Problems()
        if not session.context.permissions().sees_database(target.database):
            raise denied_table()
        database = session.context.catalog.databases.get(target.database)
        records = read_records(target, messages_of(bodies, problems), problems)
        find_series = series_of_json if target.protocol == JSON else series_of_line
        kinds = KnownKinds(session, database)
        blocks = blocks_of(records, find_series, kinds.find, problems)
        tables: dict[str, list[Block]] = defaultdict(list)
        for block in blocks:
            stored = with_stored_times(block, database, problems)
            tables[block.table].append(stored)
        outcomes: list[Outcome] = [None] * len(bodies)
        for name, own in tables.items():
            present = [block.without(problems) for block in own]
            self._try_table(session, database, name, present, unavailable)
            if name in unavailable:
                for number in {id for block in present for id in pc.unique(block.rows[ID]).to_pylist()}:
                    outcomes[number] = unavailable[name]
        for number, reason in problems.reasons.items():
            outcomes[number] = DataError(reason, hint="correct it")
        return outcomes

    def _try_table(
        self, session: Session, database: Database, name: str, blocks: Sequence[Block], unavailable: Unavailable
    ) -> None:
        """Write the rows of a table, and note why if it cannot be written now."""
        if name in unavailable:
            return
        try:
            self._write_table(session, database, name, blocks)
        except StaleDefinitionError:
            raise
        except TransientError as error:
            unavailable[name] = error

    def _write_table(self, session: Session, database: Database, name: str, blocks: Sequence[Block]) -> None:
        blocks = [block for block in blocks if block.rows.num_rows]
        if not blocks:
            return
        series = used_series(blocks)
        with self._locks[database.name, name]:
            table = prepare_table(session, database, name, needed_types(blocks), list(series.values()))
            creation = missing_subtables(session, table, database, series)
            if creation is not None:
                session.run([creation])
        session.run([write_parts(table, database, [stored_rows(table, database, block) for block in blocks])])


class KnownKinds:
    """The types of the columns of tables, read once each, and only for those who may write to the table."""

    def __init__(self, session: Session, database: Database) -> None:
        self._session = session
        self._database = database
        self._tables: dict[str, Table | None] = {}

    def find(self, table: str, column: str) -> TypeKind | None:
        """Return the type of a column, or None if it does not exist yet."""
        if table not in self._tables:
            self._session.run([check_rights(self._database.name, table)])  # whether there is such a table or not
            self._tables[table] = self._session.context.catalog.tables.find(self._database.name, table)
        found = self._tables[table]
        present = None if found is None or found.is_tag(column) else found.column(column)
        return None if present is None else present.type.kind


def messages_of(bodies: Sequence[bytes], problems: Problems) -> pa.Table:
    """Return the texts of bodies with their numbers."""
    texts: list[str | None] = []
    for number, body in enumerate(bodies):
        try:
            texts.append(body.decode())
        except UnicodeDecodeError:
            texts.append("")
            problems.reasons[number] = "the body is not UTF-8"
    table = pa.table({ID: pa.array(range(len(bodies)), pa.int64()), "value": pa.array(texts, pa.string())})
    return problems.without(table)


def read_records(target: Target, messages: pa.Table, problems: Problems) -> pa.Table:
    match target.protocol:
        case "telnet":
            return telnet_records(messages, problems)
        case "json":
            return json_records(messages, problems)
        case _:
            return line_records(messages, UNITS[target.unit], problems)


def with_stored_times(block: Block, database: Database, problems: Problems) -> Block:
    """Return a block with its times as stored."""
    precision = database.precision
    ticks = np.floor_divide(block.rows[TIME].to_numpy(), precision.nanoseconds)
    low, high = tick_range(precision)
    is_outside = (ticks < low) | (ticks > high)
    problems.add(block.rows, pa.array(is_outside), "its time is out of range")
    stored = np.where(is_outside, 0, ticks) * stored_units_per_tick(precision)
    rows = block.rows.set_column(block.rows.column_names.index(TIME), TIME, pa.array(stored))
    return Block(block.table, rows, block.types, block.series)


def used_series(blocks: Sequence[Block]) -> Mapping[str, Series]:
    """Return the subtables that have rows."""
    used = {name for block in blocks for name in pc.unique(block.rows["tbname"]).to_pylist()}
    return {name: one for block in blocks for name, one in block.series.items() if name in used}


def needed_types(blocks: Sequence[Block]) -> dict[str, DataType]:
    """Return the types of fields that have values."""
    types: dict[str, DataType] = {}
    for block in blocks:
        for name, type_ in block.types.items():
            if block.rows[field_column(name)].null_count < block.rows.num_rows:
                types[name] = wider(types.get(name, type_), type_)
    return types


def stored_rows(table: Table, database: Database, block: Block) -> pa.Table:
    """Return the rows of a block in the stored columns of its table."""
    schema = rows_schema(table, database)
    columns = {table.timestamp.name: block.rows[TIME], table.series_key: block.rows["tbname"]}
    columns |= {name: block.rows[field_column(name)] for name in block.types if name in schema.names}
    return pa.table({name: values.cast(schema.field(name).type) for name, values in columns.items()})


def check_rights(database: str, table: str) -> Stage:
    """Do nothing, for which the right to write to a table is needed."""
    right = Right(Action.WRITE, Securable(ObjectKind.TABLE, database, table))
    return Stage((right,), list, lambda _: None)


def write_parts(table: Table, database: Database, parts: Sequence[pa.Table]) -> Stage:
    """Write rows, of which some may have other columns, in one commit; columns that a row does not have keep their values."""

    def apply(session: SessionState) -> Result:
        writer = session.context.group_commit
        columns = [[name for name in part.column_names if name != table.series_key] for part in parts]
        if writer is not None:
            writer.write_all(table, database, list(zip(parts, columns, strict=True)))
        else:
            for part, names in zip(parts, columns, strict=True):
                session.context.tables.writer.write(table, database, part, update_columns=names)
        return Result(affected=sum(part.num_rows for part in parts))

    count = sum(part.num_rows for part in parts)
    described = f"write {count} rows to {table.database}.{table.name}, one commit"
    return Stage(on_table(Action.WRITE, table), lambda: [described], apply)
