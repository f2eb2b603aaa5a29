"""Jobs of the catalog: definition, desired and observed state, progress."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, bindparam, case, delete, func, or_, select, update

from headrace.catalog.job_versions import add_version, hand_over, read_versions
from headrace.catalog.rows.jobs import DEFINITION, DROPPED_QUERIES, JOBS, STATUS, definition_from_row, from_row, to_row
from headrace.catalog.rows.snodes import LEASES, MEMBERS, SNODES, lease_from_row
from headrace.catalog.rules import (
    exists,
    hold_databases,
    not_found,
    refuse_rival,
    require_database,
    require_functions,
    require_plugins,
    require_table,
)
from headrace.catalog.store import Repository, Store, insert, is_among
from headrace.catalog.tables import add_table, find_table
from headrace.errors import ExistsError, FencedError, NotFoundError
from headrace.model import conversion
from headrace.model.conversion import to_json
from headrace.model.job_parts import PART, part_of, whole, whole_id, wholes
from headrace.model.job_versions import JobVersion
from headrace.model.jobs import DesiredState, JobDefinition, JobProgress, JobRecord, JobState, StopReason
from headrace.model.positions import Offsets
from headrace.model.snodes import DriverStatus, Heartbeat
from headrace.model.spelling import did_you_mean
from headrace.model.tables import Table, TableId

NO_PROGRESS: Final = JobProgress()

# Statements of every micro-batch, built once: SQLAlchemy takes longer to build a statement than SQLite to execute it.
JOB_ID: Final = "job_id"
STATUS_BY_ID: Final = select(*STATUS).where(JOBS.c.id == bindparam(JOB_ID))
JOB_BY_ID: Final = select(*JOBS.c).where(JOBS.c.id == bindparam(JOB_ID))
UPDATE_BY_ID: Final = update(JOBS).where(JOBS.c.id == bindparam(JOB_ID))
HAS_SCHEDULE: Final = JOBS.c.continuous_query.is_not(None)
DESIRED_BY_ID: Final = select(JOBS.c.desired).where(JOBS.c.id == bindparam(JOB_ID))
NEWEST_EPOCH: Final = select(LEASES.c.epoch).where(
    LEASES.c.snode == select(JOBS.c.snode).where(JOBS.c.id == bindparam(JOB_ID)).scalar_subquery()
)
HELD_EPOCH: Final = NEWEST_EPOCH.with_for_update(read=True)
"""The same with a lock, so that the lease cannot change hands before an update is done."""
IS_FIRST: Final = JOBS.c.id.not_like(f"%\\{PART}%", escape="\\")
"""Leaves out the parts of a stream but its first."""
MAX_DEFINITIONS: Final = 10_000
"""When there are more, only those that were read last are kept."""


class Jobs(Repository):
    """Jobs by id, and by database, kind and name. A stream in several parts has a row for each; see `headrace.model.job_parts`.

    An `epoch` is that of the writer's lease of the job's snode: if a newer lease was handed out, `FencedError` is raised and
    nothing changes.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._definitions = Definitions()

    def create(
        self,
        definition: JobDefinition,
        desired: DesiredState = DesiredState.RUNNING,
        if_not_exists: bool = False,
        *,
        target: Table | None = None,
        state: JobState = JobState.CREATED,
        progress: JobProgress = NO_PROGRESS,
        plugins: Collection[str] = (),
    ) -> bool:
        """Record a job; return False if one of the name exists and `if_not_exists`.

        `target` is recorded in the same transaction; without it the target table exists, or may follow. So is where the job
        begins: there is never a job without its target, or one that does not know where to begin. `plugins` are the registered
        plugins that a pipe uses, which must still exist.

        Raises:
            ExistsError: A job of the kind and name, or of the id, exists.
            NotFoundError: A database, a source table, a column, a function or a plugin that the job uses is missing.
            InvalidStreamError: Another job fills the target.
        """
        record = JobRecord(definition, desired, state, progress)
        with self._store.write() as connection:
            _hold_sources(connection, definition)
            same_name = select(JOBS.c.id).where(*_matches(definition.kind, definition.database, definition.name))
            if connection.scalar(same_name) is not None:
                if if_not_exists:
                    return False
                raise exists(definition.kind, str(definition))
            require_plugins(connection, plugins)
            self._insert(connection, record, target)
            add_version(connection, first_version(definition))
        return True

    def replace(
        self, replaced: str, definition: JobDefinition, *, desired: DesiredState, target: Table | None, progress: JobProgress
    ) -> None:
        """Record a job in place of another one in one transaction, whose versions it continues. It begins with its backfill.

        Args:
            replaced: The id of the job that goes, with its ledger.
            definition: The job.
            desired: Its desired state.
            target: Its target if that is to be recorded too.
            progress: Where it begins.

        Raises:
            NotFoundError: The other job was dropped, or what `create` names.
            InvalidStreamError: Another job fills the target.
        """
        record = JobRecord(definition, desired, JobState.FILLING, progress)
        with self._store.write() as connection:
            _hold_sources(connection, definition)
            versions = read_versions(connection, replaced)
            if not connection.execute(delete(JOBS).where(_is_part_of(replaced))).rowcount:
                raise _missing_id(replaced)
            self._insert(connection, record, target)
            hand_over(connection, versions, definition.id)
            add_version(connection, first_version(definition))

    def redefine(self, definition: JobDefinition, plugins: Collection[str] = (), *, user: str) -> None:
        """Record another statement of a user for a job, its owner, and other stages of a pipe. Its driver continues where it is.

        Raises:
            NotFoundError: The job was dropped, or one of the registered plugins that it uses.
        """
        values = {"sql": definition.sql, "owner": definition.owner, "pipe": conversion.to_json(definition.pipe)}
        with self._store.write() as connection:
            require_plugins(connection, plugins)
            self._update_parts(connection, definition.id, values)
            add_version(connection, JobVersion(definition.id, 0, self._store.now(connection), user, definition.sql))

    def _insert(self, connection: Connection, record: JobRecord, target: Table | None) -> None:
        definition = record.definition
        refuse_rival(connection, definition)
        require_columns(connection, definition)
        require_functions(connection, definition)
        if target is None and definition.target is not None and definition.schema is not None:
            require_table(connection, definition.target.database, definition.target.name)
        if target is not None:
            add_table(connection, target, self._store.now(connection))
        for part in divided(connection, definition):
            statement = insert(connection, JOBS).values(to_row(replace(record, definition=part))).on_conflict_do_nothing()
            if connection.scalar(statement.returning(JOBS.c.id)) is None:
                raise ExistsError(f"a job with the id {part.id} exists already")

    def get(self, database: str, name: str, kind: str) -> JobRecord:
        """Return the job of a name; raise `NotFoundError` with the nearest name."""
        record = self.find(database, name, kind)
        if record is not None:
            return record
        with self._store.read() as connection:
            if database:
                require_database(connection, database)
            raise _missing_name(connection, kind, database, name)

    def find(self, database: str, name: str, kind: str) -> JobRecord | None:
        """Return the job of a name; None if it does not exist, or its database does not."""
        return self._find(*_matches(kind, database, name))

    def of_target(self, target: TableId) -> JobRecord | None:
        """Return the job that fills a table, if there is one."""
        return self._find(JOBS.c.target_database == target.database, JOBS.c.target_table == target.name)

    def count(self, kind: str, database: str) -> int:
        """Return the number of jobs of a kind whose first source is in a database."""
        first_source_database = JOBS.c.sources[(0, "database")].as_string()
        return self._scalar(select(func.count()).where(JOBS.c.kind == kind, first_source_database == database, IS_FIRST)) or 0

    def whole(self, id: str) -> JobRecord:
        """Return the job of an id as users see it, with all parts of a stream; raise `NotFoundError` if it was dropped."""
        return self._whole(self.by_id(id))

    def _whole(self, record: JobRecord) -> JobRecord:
        parts = () if record.definition.parts == 1 else self.parts_of(record.definition.id)
        return whole(parts) if parts else record

    def parts_of(self, id: str) -> list[JobRecord]:
        """Return the parts of a stream, or the job of an id; none if it was dropped."""
        with self._store.read() as connection:
            return self._read(connection, _is_part_of(id), is_kept=self._definitions.has(id))

    def by_id(self, id: str) -> JobRecord:
        """Return the job of an id, of a stream in parts this part; raise `NotFoundError` if it was dropped."""
        with self._store.read() as connection:
            rows = connection.execute(STATUS_BY_ID if self._definitions.has(id) else JOB_BY_ID, {JOB_ID: id}).mappings().all()
            for record in self._records(connection, rows):
                return record
        raise _missing_id(id)

    def all(self, snode: str | None = None, kind: str | None = None) -> list[JobRecord]:
        """Return every job, or those of one snode or kind, by database and name, streams in parts once."""
        return wholes(self.parts(snode, kind))

    def parts(self, snode: str | None = None, kind: str | None = None) -> list[JobRecord]:
        """Return what `all` does, each part of a stream for itself, as drivers run it."""
        conditions = [] if snode is None else [JOBS.c.snode == snode]
        if kind is not None:
            conditions.append(JOBS.c.kind == kind)
        with self._store.read() as connection:
            return self._read(connection, *conditions, is_kept=self._definitions.has_some())

    def _find(self, *conditions: ColumnElement[bool]) -> JobRecord | None:
        """Return the job that meets conditions, which at most one does, with all of its parts."""
        with self._store.read() as connection:
            record = next(iter(self._read(connection, *conditions, is_kept=False)), None)
        return None if record is None else self._whole(record)

    def _read(self, connection: Connection, *conditions: ColumnElement[bool], is_kept: bool) -> list[JobRecord]:
        """Read jobs; by one statement if `is_kept` is right about their definitions."""
        query = select(*(STATUS if is_kept else JOBS.c)).where(*conditions).order_by(JOBS.c.database, JOBS.c.name, JOBS.c.kind)
        return self._records(connection, connection.execute(query).mappings().all())

    def _records(self, connection: Connection, rows: Sequence[RowMapping]) -> list[JobRecord]:
        definitions = self._definitions.of(connection, rows)
        return [from_row(row, definitions[row["id"]]) for row in rows if row["id"] in definitions]

    def set_desired(self, id: str, desired: DesiredState) -> None:
        """Record the state that the user asks for, of all parts; raise `NotFoundError` if the job was dropped."""
        with self._store.write() as connection:
            self._update_parts(connection, id, {"desired": desired.value})

    def is_wanted(self, id: str, epoch: int | None = None) -> bool:
        """Return whether the user wants a job to run."""
        with self._store.read() as connection:
            if epoch is not None:
                refuse_older(connection, id, epoch, NEWEST_EPOCH)
            desired = connection.scalar(DESIRED_BY_ID, {JOB_ID: id})
        if desired is None:
            raise _missing_id(id)
        return bool(desired == DesiredState.RUNNING.value)

    def set_state(self, id: str, state: JobState, reason: StopReason | None = None, epoch: int | None = None) -> None:
        """Record the observed state and its reason (None clears the reason)."""
        self._update(id, {"state": state.value, "reason": conversion.to_json(reason)}, epoch)

    def replace_state(
        self, seen: JobRecord, state: JobState, reason: StopReason | None = None, *, driver: DriverStatus | None = None
    ) -> bool:
        """Record a state in place of the one that was seen, for writers without a lease.

        Args:
            seen: The job as the writer read it.
            state: The new state.
            reason: The reason that goes with it; None clears it.
            driver: If set, the job's driver must still be as the writer saw it.

        Returns:
            False if the state, its reason or the driver has changed since, or the job was dropped; nothing is written then.
        """
        definition = seen.definition
        with self._store.write() as connection:
            if driver is not None and not _is_unchanged(connection, definition.snode, driver):
                return False
            query = select(JOBS.c.state, JOBS.c.reason).where(JOBS.c.id == definition.id).with_for_update()
            row = connection.execute(query).one_or_none()
            if row is None or tuple(row) != (seen.state.value, conversion.to_json(seen.reason)):
                return False
            values = {"state": state.value, "reason": conversion.to_json(reason)}
            connection.execute(update(JOBS).where(JOBS.c.id == definition.id).values(values))
        return True

    def set_progress(self, id: str, progress: JobProgress, epoch: int | None = None) -> None:
        """Record how far the job has come."""
        self._update(id, conversion.to_row(progress), epoch)

    def skip(self, id: str, offsets: Offsets) -> None:
        """Record offsets to skip to; the drivers of all parts do so before the next micro-batch."""
        with self._store.write() as connection:
            self._update_parts(connection, id, {"skip_to": dict(offsets)})

    def move(self, id: str, owner: str, snode: str) -> bool:
        """Hand a job over to another snode; return False if its owner has changed, or it was dropped."""
        with self._store.write() as connection:
            moved = update(JOBS).where(JOBS.c.id == id, JOBS.c.snode == owner).values(snode=snode)
            return connection.execute(moved).rowcount == 1

    def drop(self, id: str) -> None:
        """Remove the record and its ledger, if there is one. The parts of a stream go with the first of them."""
        with self._store.write() as connection:
            name = connection.scalar(delete(JOBS).where(_is_part_of(id)).returning(case((HAS_SCHEDULE, JOBS.c.name))))
            if name is not None:
                row = insert(connection, DROPPED_QUERIES).values(name=name, number=1)
                number = DROPPED_QUERIES.c.number + 1
                connection.execute(row.on_conflict_do_update(index_elements=["name"], set_={"number": number}))

    def dropped_queries(self, name: str) -> int:
        """Return how many continuous queries of a name were dropped."""
        return self._scalar(select(DROPPED_QUERIES.c.number).where(DROPPED_QUERIES.c.name == name)) or 0

    def _update_parts(self, connection: Connection, id: str, values: dict[str, Any]) -> None:
        if not connection.execute(update(JOBS).where(_is_part_of(id)).values(values)).rowcount:
            raise _missing_id(id)

    def _update(self, id: str, values: dict[str, Any], epoch: int | None) -> None:
        with self._store.write() as connection:
            if epoch is not None:
                refuse_older(connection, id, epoch)
            _update_by_id(connection, id, values)


def first_version(definition: JobDefinition) -> JobVersion:
    """Return the version of a job that is created, by its owner."""
    return JobVersion(definition.id, 1, definition.created, definition.owner, definition.sql)


def divided(connection: Connection, definition: JobDefinition) -> list[JobDefinition]:
    """Return the parts of a new stream, spread over the snodes that share jobs from its own on; of another job its own."""
    if definition.parts == 1:
        return [definition]
    members = list(connection.scalars(select(MEMBERS.c.name).order_by(MEMBERS.c.dnode)))
    first = members.index(definition.snode) if definition.snode in members else 0
    snodes = [*members[first:], *members[:first]] if definition.snode in members else [definition.snode]
    return [part_of(definition, number, snodes[number % len(snodes)]) for number in range(definition.parts)]


def _is_part_of(id: str) -> ColumnElement[bool]:
    """Return the condition that a row is a job, or a part of the stream of which the job is the first part."""
    is_job: ColumnElement[bool] = JOBS.c.id == id
    return is_job if id != whole_id(id) else or_(is_job, JOBS.c.id.startswith(f"{id}{PART}", autoescape=True))


def _update_by_id(connection: Connection, id: str, values: dict[str, Any]) -> None:
    if connection.execute(UPDATE_BY_ID, {JOB_ID: id, **values}).rowcount != 1:
        raise _missing_id(id)


def _hold_sources(connection: Connection, definition: JobDefinition) -> None:
    hold_databases(connection, *definition.databases)
    for source in definition.sources:
        require_table(connection, source.database, source.name)


def refuse_older(connection: Connection, id: str, epoch: int, query: Select[int] = HELD_EPOCH) -> None:
    """Raise `FencedError` if the lease of the job's snode has a newer epoch."""
    newest = connection.scalar(query, {JOB_ID: id})
    if newest is not None and newest > epoch:
        raise FencedError(f"job {id} now belongs to epoch {newest}, this driver has {epoch}", hint="another driver has taken over")


def require_columns(connection: Connection, definition: JobDefinition) -> None:
    """Raise `NotFoundError` unless there are the columns that a job reads: one may have been dropped since it was planned."""
    if definition.schema is None:
        return
    needed = [(definition.source, name) for name in definition.schema.reads]
    needed += [(reference.origin, reference.origin_column) for reference in definition.schema.references]
    tables = {id: find_table(connection, id.database, id.name) for id, _ in needed}
    for id, name in needed:
        if tables[id].column(name) is None:
            raise NotFoundError(f"{id} has no column {name} any more", hint="see DESCRIBE")


def _is_unchanged(connection: Connection, snode: str, driver: DriverStatus) -> bool:
    """Check that a driver is as it was seen. The lease's row stays locked, so that nothing changes before the write."""
    lease = connection.execute(select(LEASES).where(LEASES.c.snode == snode).with_for_update()).mappings().one_or_none()
    beat = connection.execute(select(SNODES).where(SNODES.c.snode == snode)).mappings().one_or_none()
    return driver.is_unchanged(
        None if lease is None else lease_from_row(lease), None if beat is None else conversion.from_row(Heartbeat, beat)
    )


def _matches(kind: str, database: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return JOBS.c.kind == kind, JOBS.c.database == database, JOBS.c.name == name


def _missing_name(connection: Connection, kind: str, database: str, name: str) -> NotFoundError:
    names = connection.scalars(select(JOBS.c.name).where(JOBS.c.kind == kind, JOBS.c.database == database, IS_FIRST))
    if not database:
        return NotFoundError(f"{kind} {name} does not exist", hint=did_you_mean(name, names))
    return not_found(kind, f"{database}.{name}", [f"{database}.{other}" for other in names])


def _missing_id(id: str) -> NotFoundError:
    return NotFoundError(f"no job has the id {id}", hint="it was dropped")


class Definitions:
    """Definitions by job, which are read once: drivers ask for all jobs every second. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, JobDefinition] = {}

    def has(self, id: str) -> bool:
        """Return whether there is a definition of a job, perhaps an outdated one."""
        return id in self._kept

    def has_some(self) -> bool:
        return bool(self._kept)

    def of(self, connection: Connection, rows: Sequence[RowMapping]) -> dict[str, JobDefinition]:
        """Return the definitions of some rows by id, without those of jobs that have just been dropped.

        The rows have the columns `STATUS`, or all. With the former, definitions that are not kept are read.
        """
        kept = self._kept
        definitions = {row["id"]: kept[row["id"]] for row in rows if row["id"] in kept and is_current(kept[row["id"]], row)}
        missing = [row for row in rows if row["id"] not in definitions]
        if missing:
            new = {row["id"]: definition_from_row(row) for row in with_definitions(connection, missing)}
            definitions |= new
            self._kept = (kept if len(kept) + len(new) <= MAX_DEFINITIONS else {}) | new
        return definitions


def with_definitions(connection: Connection, rows: Sequence[RowMapping]) -> Sequence[RowMapping]:
    if all(column.name in rows[0] for column in DEFINITION):
        return rows
    query = select(*DEFINITION).where(is_among(connection, JOBS.c.id, [row["id"] for row in rows]))
    return connection.execute(query).mappings().all()


def is_current(definition: JobDefinition, row: RowMapping) -> bool:
    """Return whether a definition is that of a row: only its statement, its snode and the stages of a pipe can change."""
    is_same = (definition.sql, definition.snode, definition.created) == (row["sql"], row["snode"], row["created"])
    # A password may have changed, which the statement does not show.
    return is_same and to_json(definition.pipe) == row["pipe"]
