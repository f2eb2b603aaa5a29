"""Loading of files into trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.paths import ROOT, join_path, parse_path
from headrace.model.progress import Progress, no_progress
from headrace.model.tables import Database
from headrace.model.trees import TREE_TABLE
from headrace.service.names import parse_name
from headrace.service.results import Result
from headrace.service.rights import Action, Right, database_securable
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.trees.databases import MakeTree
from headrace.trees.databases import DEFAULT_LEVEL, database_of, new_database


@dataclass(frozen=True, slots=True)
class LoadTree(Stage):
    """Load files into a tree, all or nothing. Missing series are created once all values are validated.

    Attributes:
        device: The device of all rows; if None, the files name it.
        bytes: Size of all files.
        aligned: Whether devices that are created are aligned.
        format: `csv`, `parquet` or `ndjson`; if None, the files' extensions decide.
    """

    database: Database
    files: tuple[Path, ...]
    device: str | None
    bytes: int
    aligned: bool = False
    format: str | None = None
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        database = database_securable(self.database.name)
        return (Right(Action.ALTER, database), Right(Action.WRITE, database))

    def describe(self) -> list[str]:
        count = len(self.files)
        size = f"{count} file{'' if count == 1 else 's'} of {self.bytes:,} bytes"
        target = self.database.name if self.device is None else f"device {self.device}"
        return [f"load {size} into {target}: all rows or none", "create the series that are missing"]

    def apply(self, session: SessionState) -> Result:
        from headrace.storage.loading.loader import LoadOptions
        from headrace.trees.loading import load_tree

        context = session.context
        options = LoadOptions(format=self.format, device=self.device, now=context.clock.now())

        def progress(_: int, read: int) -> None:
            self.progress(read, self.bytes)

        rows = load_tree(context, self.database, self.files, options, aligned=self.aligned, progress=progress)
        return Result(affected=rows)


@dataclass(frozen=True, slots=True)
class TreeTarget:
    """The database that files are loaded into, the stages that create it, and the device of all rows, if they have one."""

    database: Database
    makers: tuple[Stage, ...] = ()
    device: str | None = None


def find_tree_target(session: PlanningContext, into: str, device: str | None) -> TreeTarget | None:
    """Return what `into` names in a tree: a database, or a device of one; None if it names a table.

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
        return TreeTarget(database, (MakeTree(database, if_not_exists=True),), in_database(row_device, path))
    if path != name:
        if row_device not in (None, path):
            raise ProgrammingError(f"{into} is a device, not {device}", hint="leave out --device")
        row_device = path
    return TreeTarget(session.context.catalog.databases.get(name), (), in_database(row_device, name))


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
    """Return the device.

    Raises:
        ProgrammingError: It does not lie in the database.
    """
    if device is not None and device != database and not device.startswith(database + "."):
        raise ProgrammingError(f"device {device} does not lie in {database}", hint=f"write a path below {database}")
    return device
