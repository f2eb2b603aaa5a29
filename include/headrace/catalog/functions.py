"""The functions that users have registered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, select

from headrace.catalog.events import add_event
from headrace.catalog.revisions import NO_REVISION, RevisionKind, count_up, revision_of
from headrace.catalog.rows.functions import FUNCTIONS
from headrace.catalog.rules import exists, listed, not_found, refuse_jobs_calling, require_resting_callers
from headrace.catalog.store import Repository, Store, insert
from headrace.errors import Error, ExistsError, IntegrityError, NotFoundError
from headrace.model.conversion import from_row, to_row
from headrace.model.events import Event
from headrace.model.functions import RegisteredFunction
from headrace.model.jobs import JobDefinition
from headrace.model.tree_status import TreeStatus

REVISION: Final = revision_of(RevisionKind.FUNCTIONS)
BY_NAME: Final = select(FUNCTIONS).order_by(FUNCTIONS.c.dialect, FUNCTIONS.c.name)


@dataclass(frozen=True, slots=True)
class FunctionsRead:
    """All functions by language, and the revision at which they were read."""

    revision: int = NO_REVISION
    by_dialect: dict[str, tuple[RegisteredFunction, ...]] = field(default_factory=dict)


class Functions(Repository):
    """Registered functions by language and name (`stored_name`). Streams and continuous queries keep those that they call."""

    def __init__(self, store: Store) -> None:
        """Create a repository, which keeps the functions in memory until they change."""
        super().__init__(store)
        self._latest = FunctionsRead()
        self._lock = threading.Lock()

    def all(self, dialect: str) -> tuple[RegisteredFunction, ...]:
        """Return every function of a language by name. Only reads the revision if there was no change since the last call."""
        revision = self._scalar(REVISION) or NO_REVISION
        with self._lock:
            if self._latest.revision != revision:
                self._latest = self._read()
            return self._latest.by_dialect.get(dialect, ())

    def find(self, dialect: str, name: str) -> RegisteredFunction | None:
        """Return a function, or None."""
        return next(iter(self._all(RegisteredFunction, select(FUNCTIONS).where(*_matches(dialect, name)))), None)

    def artifacts(self) -> set[str]:
        """Return the hashes of the artifacts of all functions."""
        values = self._rows(select(FUNCTIONS.c.artifact).where(FUNCTIONS.c.artifact.is_not(None)))
        return {row["artifact"]["sha256"] for row in values}

    def create(self, function: RegisteredFunction, *, or_replace: bool = False) -> None:
        """Record a function, whose version is the next one if it replaces another.

        Raises:
            ExistsError: The name is taken, and the function does not replace.
            IntegrityError: A job that is neither PAUSED nor STOPPED calls the function that it would replace, or one calls it that
                could not call the new one. The history of the others has an event.
        """
        with self._store.write() as connection:
            count_up(connection, RevisionKind.FUNCTIONS)
            row = insert(connection, FUNCTIONS).values(to_row(function)).on_conflict_do_nothing().returning(FUNCTIONS.c.name)
            if connection.scalar(row) is not None:
                return
            if not or_replace:
                raise function_exists(function.dialect, function.name)
            self._replace(connection, function)

    def _replace(self, connection: Connection, function: RegisteredFunction) -> None:
        callers = require_resting_callers(connection, function.name)
        row = connection.execute(select(FUNCTIONS).where(*_matches(function.dialect, function.name))).mappings().one_or_none()
        old = None if row is None else from_row(RegisteredFunction, row)
        renewed = replace(function, version=0 if old is None else old.version + 1)
        if old is not None and callers:
            _require_same_type(renewed, old, callers)
            message = f"function {function.name}: {_version_text(old)} was replaced by {_version_text(renewed)}"
            for job in callers:
                add_event(connection, Event(self._store.now(connection), "job", job.id, "FUNCTION_REPLACED", message))
        connection.execute(delete(FUNCTIONS).where(*_matches(function.dialect, function.name)))
        connection.execute(insert(connection, FUNCTIONS).values(to_row(renewed)))

    def drop(self, dialect: str, name: str) -> None:
        """Remove a function.

        Raises:
            NotFoundError: There is none of that name.
            IntegrityError: A job calls it.
        """
        with self._store.write() as connection:
            # First, as in `create`: changes of one function that run at once take their locks in the same order.
            count_up(connection, RevisionKind.FUNCTIONS)
            dropped = delete(FUNCTIONS).where(*_matches(dialect, name)).returning(FUNCTIONS.c.name)
            if connection.scalar(dropped) is None:
                names = connection.scalars(select(FUNCTIONS.c.name).where(FUNCTIONS.c.dialect == dialect)).all()
                raise missing_function(dialect, name, names)
            refuse_jobs_calling(connection, name)

    def _read(self) -> FunctionsRead:
        by_dialect: dict[str, list[RegisteredFunction]] = {}
        with self._store.read() as connection:
            revision = connection.scalar(REVISION) or NO_REVISION
            for row in connection.execute(BY_NAME).mappings():
                function = from_row(RegisteredFunction, row)
                by_dialect.setdefault(function.dialect, []).append(function)
        return FunctionsRead(revision, {dialect: tuple(functions) for dialect, functions in by_dialect.items()})


def function_exists(dialect: str, name: str) -> Error:
    """Return the error for a function whose name is taken."""
    if dialect != "iotdb":
        return exists("function", name, "use OR REPLACE, IF NOT EXISTS, or another name")
    error = ExistsError(f"Failed to create UDF [{name}], the same name UDF has been created", hint="use another name, or drop it")
    return error.with_status(TreeStatus.EXECUTE_STATEMENT_ERROR)


def missing_function(dialect: str, name: str, names: Sequence[str] = ()) -> Error:
    """Return the error for dropping a function that does not exist."""
    if dialect != "iotdb":
        return not_found("function", name, names)
    error = NotFoundError(f"Failed to drop UDF [{name}], this UDF has not been created", hint="SHOW FUNCTIONS lists what there is")
    return error.with_status(TreeStatus.EXECUTE_STATEMENT_ERROR)


def _matches(dialect: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return FUNCTIONS.c.dialect == dialect, FUNCTIONS.c.name == name


def _require_same_type(new: RegisteredFunction, old: RegisteredFunction, callers: Sequence[JobDefinition]) -> None:
    """Raise `IntegrityError` if a function does not give jobs that call an older version the same type of values."""
    if (new.kind, new.output_type) != (old.kind, old.output_type):
        names = listed(f"{job.kind} {job}" for job in callers)
        raise IntegrityError(
            f"function {new.name} cannot be replaced by {_type_text(new)}: {names} {'needs' if len(callers) == 1 else 'need'} "
            f"{_type_text(old)}",
            hint="keep its kind and OUTPUTTYPE, or create another function",
        )


def _type_text(function: RegisteredFunction) -> str:
    return f"{'an aggregate' if function.is_aggregate else 'a function of rows'} of {function.output_type}"


def _version_text(function: RegisteredFunction) -> str:
    return f"version {function.version}" + ("" if function.artifact is None else f" (SHA-256 {function.artifact.sha256})")
