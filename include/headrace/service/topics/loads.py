"""Loading of files into tables and trees, which no statement expresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.progress import Progress, no_progress
from headrace.model.tables import Database, Table, TableKind
from headrace.service.names import database_of, parse_name, refuse_virtual
from headrace.service.results import Result
from headrace.service.rights import Action
from headrace.service.stage import Stage, TableStage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.subtables import create_missing
from headrace.service.topics.trees.loads import LoadTree, find_tree_target


@dataclass(frozen=True, slots=True)
class LoadFiles(TableStage):
    """Load files into a table, all or nothing.

    Attributes:
        subtable: The subtable of all rows; if None, a column `tbname` names it.
        bytes: Size of all files.
        format: `csv`, `parquet` or `ndjson`; if None, the files' extensions decide.
    """

    action = Action.WRITE
    database: Database
    files: tuple[Path, ...]
    subtable: str | None
    bytes: int
    format: str | None = None
    progress: Progress = field(default=no_progress, compare=False)

    def describe(self) -> list[str]:
        table, count = self.table, len(self.files)
        size = f"{count} file{'' if count == 1 else 's'} of {self.bytes:,} bytes"
        subtable = f", all rows of {self.subtable}" if self.subtable not in (None, table.name) else ""
        return [f"load {size} into {table.database}.{table.name}{subtable}: all rows or none"]

    def apply(self, session: SessionState) -> Result:
        from headrace.storage.loading.loader import LoadOptions

        context = session.context
        loaded = context.tables.loader(context.spark, self.table, self.database).load(
            self.files,
            lambda _, read: self.progress(read, self.bytes),
            options=LoadOptions(format=self.format, tbname=self.subtable, now=context.clock.now()),
            announce=lambda tags: create_missing(context, self.table, self.database, tags),
        )
        return Result(affected=loaded.inserted + loaded.updated)


def plan_load(
    session: PlanningContext,
    files: Sequence[Path],
    into: str,
    subtable: str | None = None,
    *,
    device: str | None = None,
    aligned: bool = False,
    file_format: str | None = None,
    progress: Progress = no_progress,
) -> list[Stage]:
    """Plan to load files into a plain table, a subtable, a supertable whose subtables a column `tbname` names, or a tree.

    Raises:
        NotFoundError: A file, the table or the subtable does not exist.
    """
    size = sum(file_size(path) for path in files)
    if (target := find_tree_target(session, into, device)) is not None:
        if subtable is not None:
            raise ProgrammingError(f"{into} is in a tree, which has no subtables", hint="name the device of all rows: --device")
        return [*target.makers, LoadTree(target.database, tuple(files), target.device, size, aligned, file_format, progress)]
    if device is not None or aligned:
        raise ProgrammingError(f"{into} has no devices", hint="name the subtable of all rows: --subtable")
    context, name = session.context, parse_name(into)
    database = context.catalog.databases.get(database_of(name, session))
    existing = context.catalog.subtables.find(database.name, [name.name]).get(name.name)
    table = context.catalog.tables.get(database.name, existing.table if existing else name.name)
    refuse_virtual(table, name)
    rows_subtable = find_row_subtable(table, existing.name if existing else None, subtable, session)
    return [LoadFiles(table, database, tuple(files), rows_subtable, size, file_format, progress)]


def file_size(path: Path) -> int:
    if not path.is_file():
        raise NotFoundError(f"file {path} does not exist", hint="check the path")
    return path.stat().st_size


def find_row_subtable(table: Table, target: str | None, option: str | None, session: PlanningContext) -> str | None:
    """Return the one subtable of all rows, if there is one: the target itself, or the one that the option names."""
    if table.kind is TableKind.PLAIN:
        return table.name
    if target is not None and option is not None and target != option:
        raise ProgrammingError(f"{target} is a subtable already, not a supertable", hint="leave out --subtable")
    name = target or option
    if name is not None and session.context.catalog.subtables.get(table.database, name).table != table.name:
        raise NotFoundError(f"{name} is not a subtable of {table.name}", hint=f"SHOW TABLES FROM {table.database}")
    return name
