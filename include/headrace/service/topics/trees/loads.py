"""Loading of files into trees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.paths import ANY_LEVELS, ROOT, join_path, parse_path
from headrace.model.progress import Progress
from headrace.model.tables import Database
from headrace.model.trees import TREE_TABLE
from headrace.service.names import parse_name
from headrace.service.results import Result
from headrace.service.rights import Right, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.trees.databases import create_tree
from headrace.trees.databases import DEFAULT_LEVEL, database_of, new_database


def load_tree(
    database: Database,
    files: Sequence[Path],
    device: str | None,
    size: int,
    aligned: bool,
    format: str | None,
    progress: Progress,
) -> Stage:
    """Load files of some bytes into a tree, all or nothing. Missing series are created once all values are validated.

    Without a device of all rows, the files name it. `aligned` is whether devices that are created are aligned.
    """

    def apply(session: SessionState) -> Result:
        from headrace.storage.loading.loader import LoadOptions
        from headrace.trees import loading

        options = LoadOptions(format=format, device=device, now=session.context.clock.now())
        loaded = loading.load_tree(
            session.context, database, files, options, aligned=aligned, progress=lambda _, read: progress(read, size)
        )
        return Result(affected=loaded.written, read=loaded.read)

    target = database.name if device is None else f"device {device}"
    described = [f"load {described_files(files, size)} into {target}: all rows or none", "create the series that are missing"]
    return Stage(tree_rights(database.name if device is None else device), lambda: described, apply)


def tree_rights(path: str) -> tuple[Right, ...]:
    """Return the rights to load into all series below a path."""
    below = [f"{path}.{ANY_LEVELS}"]
    return (*on_paths(Privilege.WRITE_DATA, below), *on_paths(Privilege.WRITE_SCHEMA, below))


def described_files(files: Sequence[Path], size: int) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'} of {size:,} bytes"


def find_tree_target(session: PlanningContext, into: str, device: str | None) -> tuple[list[Stage], Database, str | None] | None:
    """Return what `into` names in a tree, a database or a device of one; None if it names a table.

    These are the stages that create the database, the database, and the device of all rows, if they have one.

    Raises:
        NotFoundError: There is no such database, and INSERT would not create it.
        ProgrammingError: The device is not a path, or lies elsewhere.
    """
    path = tree_path(session, into)
    if path is None:
        return None
    row_device = None if device is None else device_path(device)
    name = database_of(path, session.context)
    if name is None:
        if len(parse_path(path) or ()) != DEFAULT_LEVEL:
            raise NotFoundError(f"database {path} does not exist", hint=f"with the iotdb dialect, run CREATE DATABASE {path}")
        database = new_database(path, session.context)
        return [create_tree(database, if_not_exists=True)], database, in_database(row_device, path)
    if path != name:
        if row_device not in (None, path):
            raise ProgrammingError(f"{into} is a device, not {device}", hint="leave out --device")
        row_device = path
    return [], session.context.catalog.databases.get(name), in_database(row_device, name)


def tree_path(session: PlanningContext, into: str) -> str | None:
    """Return the canonical path that a target names; None if it names a table."""
    name = parse_name(into)
    if name.name == TREE_TABLE and name.database in session.context.catalog.trees.databases():
        return name.database
    nodes = parse_path(into)
    is_table = nodes is not None and any(database.name == ROOT for database in session.context.catalog.databases.all())
    return None if nodes is None or len(nodes) < DEFAULT_LEVEL or is_table else join_path(nodes)


def device_path(text: str) -> str:
    """Return the canonical path of a device as a user writes it."""
    nodes = parse_path(text)
    if nodes is None or len(nodes) < DEFAULT_LEVEL:
        raise ProgrammingError(f"{text} is not the path of a device", hint="write a path such as root.plant.line1")
    return join_path(nodes)


def in_database(device: str | None, database: str) -> str | None:
    """Return the device; `ProgrammingError` if it does not lie in the database."""
    if device is not None and device != database and not device.startswith(database + "."):
        raise ProgrammingError(f"device {device} does not lie in {database}", hint=f"write a path below {database}")
    return device
