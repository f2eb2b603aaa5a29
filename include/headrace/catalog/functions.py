"""The functions that users have registered."""

from __future__ import annotations

from sqlalchemy import delete, select

from headrace.catalog.rows.trees import FUNCTIONS
from headrace.catalog.store import Repository, insert
from headrace.errors import Error, ExistsError, NotFoundError
from headrace.model.conversion import to_row
from headrace.model.functions import RegisteredFunction
from headrace.model.tree_status import TreeStatus


class Functions(Repository):
    """Registered functions by name, which is in upper case."""

    def all(self) -> list[RegisteredFunction]:
        """Return every function by name."""
        return self._all(RegisteredFunction, select(FUNCTIONS).order_by(FUNCTIONS.c.name))

    def create(self, function: RegisteredFunction) -> None:
        """Record a function; `ExistsError` if the name is taken."""
        with self._store.write() as connection:
            new = insert(connection, FUNCTIONS).values(to_row(function)).on_conflict_do_nothing().returning(FUNCTIONS.c.name)
            if connection.scalar(new) is None:
                raise function_exists(function.name)

    def drop(self, name: str) -> None:
        """Remove a function; `NotFoundError` if there is none of that name."""
        with self._store.write() as connection:
            dropped = delete(FUNCTIONS).where(FUNCTIONS.c.name == name).returning(FUNCTIONS.c.name)
            if connection.scalar(dropped) is None:
                raise missing_function(name)


def function_exists(name: str) -> Error:
    """Return the error for a function whose name is taken."""
    error = ExistsError(f"Failed to create UDF [{name}], the same name UDF has been created", hint="use another name, or drop it")
    return error.with_status(TreeStatus.EXECUTE_STATEMENT_ERROR)


def missing_function(name: str) -> Error:
    """Return the error for dropping a function that does not exist."""
    error = NotFoundError(f"Failed to drop UDF [{name}], this UDF has not been created", hint="SHOW FUNCTIONS lists what there is")
    return error.with_status(TreeStatus.EXECUTE_STATEMENT_ERROR)
