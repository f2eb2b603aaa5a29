"""Databases of trees, and times to live."""

from __future__ import annotations

from headrace.context import Context
from headrace.errors import Error, NotFoundError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.paths import ANY_LEVELS, ROOT, PathPattern, join_path, split_path
from headrace.model.schema_log import SchemaStatement
from headrace.model.tables import Database
from headrace.model.tree_statements import INFINITE, CreateTreeDatabase, DropTreeDatabases, SetTTL
from headrace.model.tree_status import TreeStatus
from headrace.service.rights import globally, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.databases import remove_database, remove_leftovers
from headrace.trees.databases import DEFAULT_LEVEL, database_of, make_tree, new_database, refuse_nesting
from headrace.trees.devices import may_lie_in, refuse_table_paths, refuse_tables
from headrace.trees.expiry import EVERY_PATH, paths_of_ttl
from headrace.trees.schema_statements import logged, path_of, set_ttl


def plan_create_tree_database(statement: CreateTreeDatabase, session: PlanningContext) -> list[Stage]:
    """Plan CREATE DATABASE; a database cannot be above or below another one."""
    name = check_new_path(statement.path, session)
    return [create_tree(Database(name, timezone=session.context.settings.timezone), statement.ttl_ms)]


def check_new_path(path: PathPattern, session: PlanningContext) -> str:
    """Return a path as the name of a new database; raise the error for what it may not be."""
    nodes, trees = path.nodes, session.context.catalog.trees
    if len(nodes) < DEFAULT_LEVEL or nodes[0] != ROOT or path.has_wildcard:
        raise illegal_path(path, "write a path such as root.plant")
    refuse_table_paths([path], session.context)
    name = join_path(nodes)
    refuse_nesting(name, (*trees.databases(), *trees.externals()), path.span)
    return name


def create_tree(database: Database, ttl_ms: int | None = None, *, if_not_exists: bool = False) -> Stage:
    """Create a database of the IoTDB language with its table; `ttl_ms` is None for no limit."""
    ttl = "" if ttl_ms is None else f", rows live for {ttl_ms} ms"
    return Stage(
        globally(Privilege.MANAGE_DATABASE),
        lambda: [f"create database {database.name} (time zone {database.timezone}){ttl}"],
        lambda session: make_tree(session.context, database, ttl_ms, if_not_exists=if_not_exists),
    )


def illegal_path(path: PathPattern, hint: str) -> Error:
    return ProgrammingError(f"{path} is not a legal path", hint=hint, span=path.span).with_status(TreeStatus.ILLEGAL_PATH)


def missing_path(path: PathPattern, hint: str) -> Error:
    return NotFoundError(f"Path [{path}] does not exist", hint=hint, span=path.span).with_status(TreeStatus.PATH_NOT_EXIST)


def plan_drop_tree_databases(statement: DropTreeDatabases, session: PlanningContext) -> list[Stage]:
    """Plan DELETE DATABASE: all databases that match, or none if a pattern matches nothing."""
    catalog = session.context.catalog
    names = [*catalog.trees.databases(), *catalog.trees.externals()]
    stages: dict[str, Stage] = {}
    refuse_table_paths(statement.patterns, session.context)
    for pattern in statement.patterns:
        matched = [name for name in names if pattern.matches(split_path(name))]
        name = join_path(pattern.nodes)
        if not matched and not pattern.has_wildcard and session.context.tables.has_leftovers(name):
            stages[name] = remove_leftovers(name)
        elif not matched:
            raise missing_path(pattern, "SHOW DATABASES lists what there is")
        for name in matched:
            jobs = [record for record in catalog.jobs.all() if record.definition.database == name]
            stages[name] = remove_database(name, catalog.tables.all(name), jobs)
    return list(stages.values())


def find_or_plan_database(device: PathPattern, session: PlanningContext) -> tuple[Database, list[Stage]]:
    if device.has_wildcard or device.nodes[0] != ROOT or len(device.nodes) < DEFAULT_LEVEL:
        raise illegal_path(device, "write a device such as root.plant.line1")
    name = database_of(join_path(device.nodes), session.context)
    if name is not None:
        return session.context.catalog.databases.get(name), []
    refuse_tables([device], session.context)
    database = new_database(join_path(device.nodes), session.context)
    return database, [create_tree(database, if_not_exists=True)]


def plan_set_ttl(statement: SetTTL, session: PlanningContext) -> list[Stage]:
    """Plan SET TTL and UNSET TTL of a database with all below it, of a device, or of all below a path. The path need not exist."""
    context, pattern, ttl_ms = session.context, statement.path, statement.ttl_ms
    check_ttl_path(pattern)
    refuse_tables([pattern], context)
    paths = paths_of_ttl(str(pattern), context.catalog.trees.databases())
    if ttl_ms is None and str(pattern) != EVERY_PATH and context.catalog.trees.ttls().keys().isdisjoint(paths):
        raise NotFoundError(
            f"Not TTL rule set for {pattern}", hint="SHOW ALL TTL lists what there is", span=pattern.span
        ).with_status(TreeStatus.PATH_NOT_EXIST)

    def set_ttls(session: SessionState) -> None:
        session.context.catalog.trees.set_ttl(paths, ttl_ms, [ttl_log(session.context, path, ttl_ms) for path in paths])

    return [
        Stage(
            on_paths(Privilege.WRITE_SCHEMA, [path_of(path) for path in paths]),
            lambda: [describe_ttl(path, ttl_ms) for path in paths],
            set_ttls,
        )
    ]


def check_ttl_path(path: PathPattern) -> None:
    """Raise `ProgrammingError` unless a path may have a time to live."""
    if path.nodes == (ROOT,):
        raise illegal_path(path, f"write {EVERY_PATH} for all devices")
    if PathPattern(path.nodes[:-1] if path.nodes[-1] == ANY_LEVELS else path.nodes).has_wildcard:
        raise ProgrammingError(
            f"Illegal pattern path: {path}, pattern path should end with **, otherwise, it should be a specific database or "
            "device path without *",
            hint="write a path such as root.plant.line1 or root.plant.**",
            span=path.span,
        ).with_status(TreeStatus.ILLEGAL_PARAMETER)


def describe_ttl(path: str, ttl_ms: int | None) -> str:
    """Return the line of EXPLAIN about the time to live of a path."""
    if ttl_ms is None:
        return f"remove the time to live of {path}"
    if ttl_ms == INFINITE:
        return f"keep rows of {path} without limit"
    return f"hide rows of {path} that are older than {ttl_ms} ms, refuse to write such rows, and remove them in maintenance"


def ttl_log(context: Context, path: str, ttl_ms: int | None) -> SchemaStatement:
    """Return the log of a time to live. It is about one database if the path lies in no other one."""
    names = [name for name in context.catalog.trees.databases() if may_lie_in(path_of(path), name)]
    return logged(context, set_ttl(path, ttl_ms), names[0] if len(names) == 1 else "")
