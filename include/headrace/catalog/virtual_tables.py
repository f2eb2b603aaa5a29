"""Virtual tables: where their columns come from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import ColumnElement, Connection, delete, select, update

from headrace.catalog.rows.tables import COLUMN_REFERENCES, SUBTABLES, TABLES, reference_from_row, reference_to_row
from headrace.catalog.rules import hold_databases, refuse_jobs_using
from headrace.catalog.store import Repository, insert
from headrace.catalog.subtables import add_subtables, find_subtables
from headrace.catalog.tables import add_table, find_table
from headrace.errors import NotFoundError
from headrace.model.conversion import to_json
from headrace.model.tables import ColumnReference, Table, TableId


class VirtualTables(Repository):
    """Column references by database and virtual table. The tables themselves are in `Tables`, their series in `Subtables`."""

    def references(self, database: str, table: str, series: Collection[str] | None = None) -> tuple[ColumnReference, ...]:
        """Return the references of a virtual table, or of some of its series, in order."""
        query = (
            select(COLUMN_REFERENCES)
            .join(
                SUBTABLES, (SUBTABLES.c.database == COLUMN_REFERENCES.c.database) & (SUBTABLES.c.name == COLUMN_REFERENCES.c.series)
            )
            .where(SUBTABLES.c.database == database, SUBTABLES.c.table == table)
        )
        if series is not None:
            query = query.where(COLUMN_REFERENCES.c.series.in_(series))
        return tuple(sorted(map(reference_from_row, self._rows(query))))

    def create(self, table: Table, references: Sequence[ColumnReference]) -> None:
        """Create a virtual table of one series; raise what `Tables.create` does, and `NotFoundError` if an origin is gone."""
        with self._store.write() as connection:
            self._hold(connection, table.database, references)
            add_table(connection, table, self._store.now(connection))
            self._add(connection, table.database, references)

    def create_subtable(self, database: str, table: str, name: str, references: Sequence[ColumnReference]) -> None:
        """Create a subtable of a virtual supertable; raise what `Subtables.add` does, and `NotFoundError` if an origin is gone."""
        with self._store.write() as connection:
            self._hold(connection, database, references)
            find_table(connection, database, table)
            add_subtables(connection, database, table, [name])
            self._add(connection, database, references)

    def set_origin(self, database: str, series: str, column: str, reference: ColumnReference | None) -> None:
        """Change where a column of a series comes from; None makes it NULL. Streams keep the origin that they began with."""
        with self._store.write() as connection:
            self._hold(connection, database, () if reference is None else (reference,))
            self._remove(connection, database, series, column)
            self._add(connection, database, () if reference is None else (reference,))

    def alter(
        self,
        table: Table,
        change: Callable[[Table], Table],
        *,
        removed: str | None = None,
        renamed: str | None = None,
        added: ColumnReference | None = None,
    ) -> None:
        """Change the columns of a virtual table of one series.

        Args:
            table: The table.
            change: Returns the new table for the current one.
            removed: A column that the change removes or renames, which no stream may use.
            renamed: The new name of that column; None if it is dropped.
            added: Where a column that the change adds comes from.
        """
        database, name = table.database, table.name
        with self._store.write() as connection:
            self._hold(connection, database, () if added is None else (added,))
            if removed is not None:
                refuse_jobs_using(connection, table.id, [removed])
            columns = [to_json(column) for column in change(find_table(connection, database, name)).columns]
            connection.execute(update(TABLES).where(TABLES.c.database == database, TABLES.c.name == name).values(columns=columns))
            if removed is not None and renamed is not None:
                connection.execute(update(COLUMN_REFERENCES).where(*_matches(database, name, removed)).values(column=renamed))
            elif removed is not None:
                self._remove(connection, database, name, removed)
            self._add(connection, database, () if added is None else (added,))

    def _hold(self, connection: Connection, database: str, references: Sequence[ColumnReference]) -> None:
        """Lock the databases of a virtual table and its origins, and check that the origins still exist."""
        hold_databases(connection, database, *(reference.origin.database for reference in references))
        for reference in references:
            require_origin(connection, reference)

    def _add(self, connection: Connection, database: str, references: Sequence[ColumnReference]) -> None:
        if references:
            connection.execute(
                insert(connection, COLUMN_REFERENCES).values([reference_to_row(database, one) for one in references])
            )

    def _remove(self, connection: Connection, database: str, series: str, column: str) -> None:
        connection.execute(delete(COLUMN_REFERENCES).where(*_matches(database, series, column)))


def require_origin(connection: Connection, reference: ColumnReference) -> None:
    """Raise `NotFoundError` unless the column that a reference names exists."""
    origin: TableId = reference.origin
    subtables = find_subtables(connection, origin.database, [reference.origin_series])
    table = find_table(connection, origin.database, origin.name)
    is_series = reference.origin_series in subtables and subtables[reference.origin_series].table == origin.name
    if not is_series or table.column(reference.origin_column) is None:
        raise NotFoundError(f"column {reference} does not exist any more", hint="see DESCRIBE")


def _matches(database: str, series: str, column: str) -> tuple[ColumnElement[bool], ...]:
    rows = COLUMN_REFERENCES.c
    return rows.database == database, rows.series == series, rows.column == column
