"""`ins_lineage`: which source columns each column of a job's target, or of a virtual table, is made of.

The lineage is that of the plans that jobs would run now, worked out when the table is read. A user sees the rows whose two columns
they may know of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.jobs.lineage import job_lineage
from headrace.model.access import PathFilter, Permissions, Privilege
from headrace.model.jobs import DesiredState
from headrace.model.lineage import EVERY_DEVICE, ColumnId, Inputs, Lineage, Transformation
from headrace.model.paths import quote_node, split_path, unquote_node
from headrace.model.tables import Table, TableKind
from headrace.model.trees import TIME_COLUMN
from headrace.service.results import BOOL, STRING, CatalogRows, ColumnOf, read_columns
from headrace.service.visible_rows import sees_table, visible_jobs

VIRTUAL_TABLE: Final = "virtual table"


@dataclass(frozen=True, slots=True)
class LineageOwner:
    """What a lineage is of: a job, or a virtual table."""

    kind: str
    database: str
    name: str
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column as it is shown: of a tree, the path of a device and a measurement. `label` is the full name of its table."""

    database: str
    table: str
    column: str
    label: str


@dataclass(frozen=True, slots=True)
class LineageRow:
    """A source column and what it does in a column of a target: in all columns of its table if there is no target column."""

    owner: LineageOwner
    target: ShownColumn | None
    source: ShownColumn
    way: Transformation
    table: tuple[str, str]


LINEAGE_COLUMNS: Final[dict[str, ColumnOf[LineageRow]]] = {
    "job_name": (STRING, lambda row: row.owner.name),
    "db_name": (STRING, lambda row: row.owner.database or None),
    "kind": (STRING, lambda row: row.owner.kind),
    "target_db": (STRING, lambda row: row.table[0] or None),
    "target_table": (STRING, lambda row: row.table[1]),
    "target_column": (STRING, lambda row: None if row.target is None else row.target.column),
    "source_db": (STRING, lambda row: row.source.database),
    "source_table": (STRING, lambda row: row.source.table),
    "source_column": (STRING, lambda row: row.source.column),
    "transformation": (STRING, lambda row: row.way.value),
    "direct": (BOOL, lambda row: row.way.is_direct),
    "job_id": (STRING, lambda row: row.owner.job_id),
}


def lineage(context: Context) -> CatalogRows:
    """Return a row for each pair of a column of a target and a source column, and those that decide about all columns."""
    return read_columns(LINEAGE_COLUMNS, (row for owner, one in lineages(context) for row in rows_of(context, owner, one)))


def rows_of(context: Context, owner: LineageOwner, one: Lineage) -> Iterator[LineageRow]:
    """Yield the rows of a lineage that the user of a context may see."""
    return Shown(context).rows(owner, one)


def lineages(context: Context) -> Iterator[tuple[LineageOwner, Lineage]]:
    """Yield the jobs and virtual tables that have a lineage. One that cannot be planned now has none."""
    for record in sorted(visible_jobs(context, context.catalog.jobs.all()), key=lambda one: str(one.definition)):
        job = record.definition
        if record.desired is not DesiredState.DROPPED and (known := job_lineage(context, job)) is not None:
            yield LineageOwner(job.kind, job.database, job.name, job.id), known
    yield from virtual_lineages(context)


def virtual_lineages(context: Context) -> Iterator[tuple[LineageOwner, Lineage]]:
    from headrace.streams.lineage import virtual_lineage

    for database in context.catalog.databases.all():
        for table in context.catalog.tables.all(database.name):
            if table.is_virtual:
                yield LineageOwner(VIRTUAL_TABLE, table.database, table.name), virtual_lineage(context.catalog, table)


class Shown:
    """What a user sees of lineages, under the names that statements have for columns."""

    def __init__(self, context: Context) -> None:
        """Prepare for the user of a context."""
        self._catalog = context.catalog
        self._permissions: Permissions = context.permissions()
        self._tables: dict[tuple[str, str], Table | None] = {}

    @cached_property
    def _paths(self) -> PathFilter:
        return self._permissions.paths(Privilege.READ_SCHEMA)

    def rows(self, owner: LineageOwner, one: Lineage) -> Iterator[LineageRow]:
        """Yield the rows of a lineage."""
        targets = [(column, self._shown(column.target)) for column in one.columns if self._sees(column.target)]
        for column, target in targets:
            yield from self._inputs(owner, (target.database, target.table), target, column.inputs)
        for table in dict.fromkeys((target.database, target.table) for _, target in targets):
            yield from self._inputs(owner, table, None, one.indirect)

    def _inputs(
        self, owner: LineageOwner, table: tuple[str, str], target: ShownColumn | None, inputs: Inputs
    ) -> Iterator[LineageRow]:
        for column in sorted(inputs):
            if self._sees(column):
                source = self._shown(column)
                yield from (LineageRow(owner, target, source, way, table) for way in sorted(inputs[column]))

    def _shown(self, column: ColumnId) -> ShownColumn:
        """Return a column under the names that statements have for it."""
        if not column.device:
            return ShownColumn(
                column.database, column.table, column.column, ".".join(filter(None, (column.database, column.table)))
            )
        below = f"{column.database}.{EVERY_DEVICE}" if column.device == EVERY_DEVICE else column.device
        return ShownColumn(column.database, below, self._measurement(column), below)

    def _measurement(self, column: ColumnId) -> str:
        """Return the measurement that a column of a tree holds; its own name for time and device."""
        table = self._table(column.database, column.table)
        stored = None if table is None else table.column(column.column)
        return column.column if stored is None or stored.comment is None else unquote_node(stored.comment)

    def _table(self, database: str, name: str) -> Table | None:
        if (database, name) not in self._tables:
            try:
                self._tables[database, name] = self._catalog.tables.get(database, name)
            except NotFoundError:
                self._tables[database, name] = None
        return self._tables[database, name]

    def _sees(self, column: ColumnId) -> bool:
        """Return whether the user may know of a column. What lies outside of the catalog is known with its job."""
        if self._permissions.is_administrator:
            return True
        if column.device:
            return self._sees_series(column)
        return not column.database or sees_table(self._permissions, column.database, column.table)

    def _sees_series(self, column: ColumnId) -> bool:
        if column.device == EVERY_DEVICE:
            return self._paths.includes_below(split_path(column.database))
        nodes = split_path(column.device)
        if column.column in (TIME_COLUMN, TableKind.TREE.series_key):
            return self._paths.touches(nodes) or self._paths.includes_below(nodes)
        return self._paths.includes((*nodes, quote_node(self._measurement(column))))
