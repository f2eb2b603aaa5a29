"""Names that a user may know of, to complete a statement with. Nothing is looked up that grows with rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.model.access import Privilege
from headrace.model.tables import Table
from headrace.service.visible_rows import VisibleParts, sees_table, visible_jobs
from headrace.streams.kind import STREAM
from headrace.trees.visibility import visible_paths

MAX_SUBTABLES: Final = 100
"""Subtables that are looked up, the first by name; who types more of a name sees others."""
FindChildren = Callable[[str], Sequence[str]]
"""Returns the nodes below a path of a tree that the user may know of."""


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """What the user of a context may know of."""

    context: Context
    children: FindChildren
    """Trees may be large, so this asks an snode."""

    def databases(self) -> list[str]:
        """Return the databases of tables."""
        permissions, trees = self.context.permissions(), self.context.catalog.trees
        others = {*trees.databases(), *trees.externals()}
        names = (database.name for database in self.context.catalog.databases.all())
        return [name for name in names if name not in others and permissions.sees_database(name)]

    def trees(self) -> list[str]:
        """Return the databases of the IoTDB language."""
        trees = self.context.catalog.trees
        return visible_paths((*trees.databases(), *trees.externals()), self.context)

    def tables(self, database: str) -> list[str]:
        """Return the supertables and plain tables of a database; none if it does not exist."""
        permissions = self.context.permissions()
        if not permissions.sees_database(database):
            return []
        return [table.name for table in self._tables(database) if sees_table(permissions, database, table.name)]

    def subtables(self, database: str, prefix: str) -> list[str]:
        """Return the first subtables of a database whose names begin with a prefix."""
        tables = self.tables(database)
        found = self.context.catalog.subtables.starting_with(database, tables, prefix, MAX_SUBTABLES)
        parts = VisibleParts(self.context.permissions(), self.context)
        return [one.name for one in found if one.name != one.table and parts.includes(database, one.name, one.table)]

    def columns(self, database: str, name: str) -> list[tuple[str, str]]:
        """Return the columns and tags of a table or subtable with their types; none if it does not exist."""
        permissions, catalog = self.context.permissions(), self.context.catalog
        subtable = catalog.subtables.find(database, [name]).get(name)
        owner = name if subtable is None else subtable.table
        parts = VisibleParts(permissions, self.context)
        if not permissions.sees_database(database) or not parts.includes(database, name, None if owner == name else owner):
            return []
        try:
            table = catalog.tables.get(database, owner)
        except NotFoundError:
            return []
        return [(column.name, str(column.type)) for column in (*table.columns, *table.tags)]

    def streams(self, database: str) -> list[str]:
        """Return the streams of a database."""
        records = visible_jobs(self.context, self.context.catalog.jobs.all())
        jobs = (record.definition for record in records)
        return sorted(job.name for job in jobs if job.kind == STREAM and job.database == database)

    def functions(self, dialect: str) -> list[str]:
        """Return the functions of a language, and those that users have registered for who may do so too."""
        from headrace.compute.language import language

        own = (name for name in language(dialect).functions if not name.startswith("_"))
        registered = self.context.catalog.functions.all(dialect) if self.context.permissions().allows(Privilege.USE_UDF) else ()
        return sorted({*own, *(function.name for function in registered)})

    def _tables(self, database: str) -> Iterator[Table]:
        try:
            yield from self.context.catalog.tables.all(database)
        except NotFoundError:
            return
