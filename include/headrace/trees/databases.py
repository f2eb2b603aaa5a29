"""Databases of trees: the one that a path lies in, and their creation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NoReturn

from headrace.context import Context
from headrace.errors import ExistsError, NotSupportedError, ProgrammingError
from headrace.model.failpoints import failpoint
from headrace.model.paths import ROOT, join_path, quote_node, split_path, unquote_node
from headrace.model.spans import Span
from headrace.model.tables import Database
from headrace.model.tree_status import TreeStatus
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
    refuse_nesting(name, catalog.trees.externals())
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
    trees = context.catalog.trees
    if any(tree == root or tree.startswith(root + ".") for tree in (*trees.databases(), *trees.externals())):
        return None
    return name if any(database.name == name for database in context.catalog.databases.all()) else None


def refuse_table_database(name: str, span: Span | None = None) -> NoReturn:
    """Raise the error for writing to a database of the other language."""
    raise NotSupportedError(
        f"{join_path((ROOT, quote_node(name)))} is the database {name} of the tdengine dialect, which this dialect only reads",
        hint="write to it with the tdengine dialect, or use another path",
        span=span,
    )


def external_database(nodes: Sequence[str], context: Context) -> str | None:
    """Return the external database at or above a path; None if there is none."""
    path = join_path(nodes)
    return next((name for name in context.catalog.trees.externals() if path == name or is_below(path, name)), None)


def refuse_external_database(name: str, span: Span | None = None) -> NoReturn:
    """Raise the error for writing to an external database."""
    raise ProgrammingError(
        f"{name} is an external database, which is only read",
        hint="write to its files by their own writer, or use another path; DELETE DATABASE removes the definition alone",
        span=span,
    )


def refuse_nesting(name: str, others: Iterable[str], span: Span | None = None) -> None:
    """Raise `ExistsError` if one of some databases has a name, or is above or below it: databases cannot be nested."""
    for other in others:
        if other == name or is_below(name, other) or is_below(other, name):
            below = f"some children of {name} have" if is_below(other, name) else f"{other} has"
            raise ExistsError(
                f"{below} already been created as database",
                hint="use another path" if other == name else f"databases cannot be nested: {other} exists",
                span=span,
            ).with_status(TreeStatus.DATABASE_ALREADY_EXISTS)


def is_below(path: str, ancestor: str) -> bool:
    """Return whether a path lies below another one."""
    return path.startswith(ancestor + ".")


def database_of(path: str, context: Context) -> str | None:
    """Return the database that a path lies in, or None."""
    return databases_of([path], context).get(path)


def databases_of(paths: Collection[str], context: Context) -> dict[str, str]:
    """Return the database that each path lies in; paths that lie in none are left out."""
    names = context.catalog.trees.databases()
    return {path: name for path in paths for name in names if path == name or path.startswith(name + ".")}


def new_database(path: str, context: Context) -> Database:
    """Return the database to create for a path that lies in none: its first two nodes.

    Raises:
        ProgrammingError: The path lies in an external database.
    """
    external = external_database(split_path(path), context)
    if external is not None:
        refuse_external_database(external)
    return Database(join_path(split_path(path)[:DEFAULT_LEVEL]), timezone=context.settings.timezone)
