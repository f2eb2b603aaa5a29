"""The functions that users have registered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import ColumnElement, delete, select

from headrace.catalog.revisions import NO_REVISION, RevisionKind, count_up, revision_of
from headrace.catalog.rows.functions import FUNCTIONS
from headrace.catalog.rules import exists, not_found, refuse_jobs_calling
from headrace.catalog.store import Repository, Store, insert
from headrace.errors import Error, ExistsError, NotFoundError
from headrace.model.conversion import from_row, to_row
from headrace.model.functions import RegisteredFunction
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
            IntegrityError: A job calls the function that it would replace.
        """
        with self._store.write() as connection:
            count_up(connection, RevisionKind.FUNCTIONS)
            row = insert(connection, FUNCTIONS).values(to_row(function)).on_conflict_do_nothing().returning(FUNCTIONS.c.name)
            if connection.scalar(row) is not None:
                return
            if not or_replace:
                raise function_exists(function.dialect, function.name)
            refuse_jobs_calling(connection, function.name, "replaced")
            old = delete(FUNCTIONS).where(*_matches(function.dialect, function.name)).returning(FUNCTIONS.c.version)
            version = connection.scalar(old)
            renewed = replace(function, version=0 if version is None else version + 1)
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
            refuse_jobs_calling(connection, name, "dropped")

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
