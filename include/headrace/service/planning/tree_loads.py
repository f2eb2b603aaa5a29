"""The tree and the device that files are loaded into."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.paths import ROOT, join_path, parse_path
from headrace.model.tables import Database
from headrace.model.trees import TREE_TABLE
from headrace.service.planning.dispatch import PlanningContext, parse_name
from headrace.service.stages import Stage
from headrace.service.tree_stages import MakeTree
from headrace.trees.databases import DEFAULT_LEVEL, database_of, new_database


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
