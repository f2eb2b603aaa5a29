"""Loading of files into tables and trees, which no statement expresses."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.loads import LoadRequest
from headrace.model.paths import parse_path
from headrace.model.progress import Progress, no_progress
from headrace.model.tables import Database, Table, TableKind
from headrace.model.trees import TREE_TABLE
from headrace.service.names import database_of, parse_name, refuse_unwritable
from headrace.service.results import Result
from headrace.service.rights import Action, Right, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.subtables import create_missing
from headrace.service.topics.trees.loads import described_files, find_tree_target, load_tree, tree_path, tree_rights


def plan_load(session: PlanningContext, request: LoadRequest, progress: Progress = no_progress) -> list[Stage]:
    """Plan to load files into a plain table, a subtable, a supertable whose subtables a column `tbname` names, or a tree.

    Raises:
        NotFoundError: A file, the table or the subtable does not exist.
    """
    files, into, file_format = request.files, request.into, request.file_format
    size = sum(file_size(path) for path in files)
    if (target := find_tree_target(session, into, request.device)) is not None:
        if request.columns:
            raise ProgrammingError(f"{into} is in a tree: --map is for tables", hint="rename the columns of the files")
        if request.subtable is not None:
            raise ProgrammingError(f"{into} is in a tree, which has no subtables", hint="name the device of all rows: --device")
        makers, tree, row_device = target
        return [*makers, load_tree(tree, files, row_device, size, request.aligned, file_format, progress)]
    if request.device is not None or request.aligned:
        raise ProgrammingError(f"{into} has no devices", hint="name the subtable of all rows: --subtable")
    context, name = session.context, parse_name(into)
    database = context.catalog.databases.get(database_of(name, session))
    existing = context.catalog.subtables.find(database.name, [name.name]).get(name.name)
    table = context.catalog.tables.get(database.name, existing.table if existing else name.name)
    refuse_unwritable(table, name)
    rows_subtable = find_row_subtable(table, existing.name if existing else None, request.subtable, session)
    return [load_files(table, database, request, rows_subtable, size, progress)]


def load_rights(session: PlanningContext, request: LoadRequest) -> tuple[Right, ...]:
    """Return the rights that a load into a tree needs by its arguments alone, asked for before names are looked up."""
    path, device = tree_path(session, request.into), request.device
    if path is None:
        return ()
    # The table of a tree means all of it, whether there is such a tree or not.
    is_path = device is not None and parse_path(device) is not None
    return tree_rights(device if device and is_path else path.removesuffix(f".{TREE_TABLE}"))


def load_files(
    table: Table, database: Database, request: LoadRequest, subtable: str | None, size: int, progress: Progress
) -> Stage:
    """Load files of some bytes into a table, all or nothing. Without a subtable of all rows, a column `tbname` names it."""

    def apply(session: SessionState) -> Result:
        from headrace.storage.loading.loader import LoadOptions

        context = session.context
        loaded = context.tables.loader(context.spark, table, database).load(
            request.files,
            lambda _, read: progress(read, size),
            options=LoadOptions(request.file_format, subtable, now=context.clock.now(), columns=request.columns),
            announce=lambda tags: create_missing(context, table, database, tags),
        )
        return Result(affected=loaded.written, read=loaded.read)

    rows = f", all rows of {subtable}" if subtable not in (None, table.name) else ""
    described = f"load {described_files(request.files, size)} into {table.database}.{table.name}{rows}: all rows or none"
    return Stage(on_table(Action.WRITE, table), lambda: [described], apply)


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
