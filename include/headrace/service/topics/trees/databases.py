"""Databases of trees, and times to live."""

from __future__ import annotations

from headrace.context import Context
from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.paths import ROOT, PathPattern, join_path, split_path
from headrace.model.schema_log import SchemaStatement
from headrace.model.tables import Database
from headrace.model.tree_statements import CreateTreeDatabase, DropTreeDatabases, SetTTL
from headrace.model.tree_status import TreeStatus
from headrace.service.rights import globally, on_paths
from headrace.service.stage import PlanningContext, Stage
from headrace.service.topics.databases import remove_database, remove_leftovers
from headrace.trees.databases import DEFAULT_LEVEL, database_of, make_tree, new_database
from headrace.trees.devices import may_lie_in, refuse_tables
from headrace.trees.schema_statements import logged, set_ttl


def plan_create_tree_database(statement: CreateTreeDatabase, session: PlanningContext) -> list[Stage]:
    """Plan CREATE DATABASE; a database cannot be above or below another one."""
    nodes = statement.path.nodes
    if len(nodes) < DEFAULT_LEVEL or nodes[0] != ROOT or statement.path.has_wildcard:
        raise illegal_path(statement.path, "write a path such as root.plant")
    refuse_tables([statement.path], session.context)
    name = join_path(nodes)
    for other in session.context.catalog.trees.databases():
        if other == name:
            raise ExistsError(
                f"{name} has already been created as database", hint="use another path", span=statement.path.span
            ).with_status(TreeStatus.DATABASE_ALREADY_EXISTS)
        if is_below(name, other) or is_below(other, name):
            raise ExistsError(
                f"some children of {name} have already been created as database"
                if is_below(other, name)
                else f"{other} has already been created as database",
                hint=f"databases cannot be nested: {other} exists",
                span=statement.path.span,
            ).with_status(TreeStatus.DATABASE_ALREADY_EXISTS)
    return [create_tree(new_database(name, session.context), statement.ttl_ms)]


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


def is_below(path: str, ancestor: str) -> bool:
    return path.startswith(ancestor + ".")


def plan_drop_tree_databases(statement: DropTreeDatabases, session: PlanningContext) -> list[Stage]:
    """Plan DELETE DATABASE: all databases that match, or none if a pattern matches nothing."""
    catalog = session.context.catalog
    names = catalog.trees.databases()
    stages: dict[str, Stage] = {}
    refuse_tables(statement.patterns, session.context)
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
    pattern = statement.path
    refuse_tables([pattern], session.context)
    database = next((name for name in session.context.catalog.trees.databases() if may_lie_in(pattern, name)), None)
    if database is None:
        raise missing_path(pattern, "SHOW DATABASES lists what there is")
    path, ttl_ms = str(pattern), statement.ttl_ms
    return [
        Stage(
            on_paths(Privilege.WRITE_SCHEMA, (pattern,)),
            lambda: [f"keep rows of {path} {'without limit' if ttl_ms is None else f'for {ttl_ms} ms'}"],
            lambda session: session.context.catalog.trees.set_ttl(path, ttl_ms, ttl_log(session.context, path, ttl_ms)),
        )
    ]


def ttl_log(context: Context, path: str, ttl_ms: int | None) -> list[SchemaStatement]:
    """Return the log of a time to live. It is about one database if the path lies in no other one."""
    pattern = PathPattern(split_path(path))
    names = [name for name in context.catalog.trees.databases() if may_lie_in(pattern, name)]
    return [logged(context, set_ttl(path, ttl_ms), names[0] if len(names) == 1 else "")]
