"""Databases of trees: the one that a path lies in, and their creation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NoReturn

from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.failpoints import failpoint
from headrace.model.paths import ROOT, join_path, quote_node, split_path, unquote_node
from headrace.model.spans import Span
from headrace.model.tables import Database
from headrace.model.trees import tree_table
from headrace.trees.expiry import paths_of_ttl
from headrace.trees.schema_statements import create_database, logged, set_ttl

DEFAULT_LEVEL: Final = 2
"""Nodes of a database that is created for a device: `root` and one more."""


def make_tree(context: Context, database: Database, ttl_ms: int | None = None, *, if_not_exists: bool = False) -> None:
    """Create a database with its table, which is empty."""
    catalog, name = context.catalog, database.name
    tables = table_database(split_path(name), context)
    if tables is not None:
        refuse_table_database(tables)
    table = tree_table(name)
    with catalog.lock(f"ddl {name}"):
        created = catalog.databases.create(database, if_not_exists, [logged(context, create_database(name), name, 0)])
        failpoint("service.tree.database")
        if created or not catalog.tables.all(name):
            context.tables.create(table, database)
            catalog.tables.create(table, if_not_exists=True)
        if created and ttl_ms is not None:
            paths = paths_of_ttl(name, [name])
            catalog.trees.set_ttl(paths, ttl_ms, [logged(context, set_ttl(path, ttl_ms), name, 0) for path in paths])


def table_database(nodes: Sequence[str], context: Context) -> str | None:
    """Return the database of the other language that a path is about; None if there is none, or a tree has the name."""
    if len(nodes) <= 1 or nodes[0] != ROOT:
        return None
    root, name = join_path(nodes[:2]), unquote_node(nodes[1])
    if any(tree == root or tree.startswith(root + ".") for tree in context.catalog.trees.databases()):
        return None
    return name if any(database.name == name for database in context.catalog.databases.all()) else None


def refuse_table_database(name: str, span: Span | None = None) -> NoReturn:
    """Raise the error for writing to a database of the other language."""
    raise NotSupportedError(
        f"{join_path((ROOT, quote_node(name)))} is the database {name} of the tdengine dialect, which this dialect only reads",
        hint="write to it with the tdengine dialect, or use another path",
        span=span,
    )


def database_of(path: str, context: Context) -> str | None:
    """Return the database that a path lies in, or None."""
    return databases_of([path], context).get(path)


def databases_of(paths: Collection[str], context: Context) -> dict[str, str]:
    """Return the database that each path lies in; paths that lie in none are left out."""
    names = context.catalog.trees.databases()
    return {path: name for path in paths for name in names if path == name or path.startswith(name + ".")}


def new_database(path: str, context: Context) -> Database:
    """Return the database to create for a path that lies in none: its first two nodes."""
    return Database(join_path(split_path(path)[:DEFAULT_LEVEL]), timezone=context.settings.timezone)
