"""Databases of trees, and times to live."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model.paths import ROOT, PathPattern, join_path, split_path
from headrace.model.tables import Database
from headrace.model.tree_statements import CreateTreeDatabase, DropTreeDatabases, SetTTL
from headrace.model.tree_status import TreeStatus
from headrace.service.results import Result
from headrace.service.rights import Action, Right, database_securable
from headrace.service.stage import DONE, DatabaseStage, Stage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.databases import RemoveDatabase
from headrace.trees.databases import DEFAULT_LEVEL, database_of, make_tree, new_database
from headrace.trees.devices import may_lie_in, refuse_tables


@dataclass(frozen=True, slots=True)
class MakeTree(DatabaseStage):
    """Create a database of the IoTDB language with its table; `ttl_ms` is None for no limit."""

    action = Action.CREATE
    ttl_ms: int | None = None
    if_not_exists: bool = False

    def describe(self) -> list[str]:
        ttl = "" if self.ttl_ms is None else f", rows live for {self.ttl_ms} ms"
        return [f"create database {self.database.name} (time zone {self.database.timezone}){ttl}"]

    def apply(self, session: SessionState) -> Result:
        make_tree(session.context, self.database, self.ttl_ms, if_not_exists=self.if_not_exists)
        return DONE


@dataclass(frozen=True, slots=True)
class ChangeTtl(Stage):
    """Set the time to live of a path or pattern; None removes it."""

    database: str
    path: str
    ttl_ms: int | None

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, database_securable(self.database)),)

    def describe(self) -> list[str]:
        return [f"keep rows of {self.path} {'without limit' if self.ttl_ms is None else f'for {self.ttl_ms} ms'}"]

    def apply(self, session: SessionState) -> Result:
        session.context.catalog.trees.set_ttl(self.path, self.ttl_ms)
        return DONE


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
    return [MakeTree(new_database(name, session.context), statement.ttl_ms)]


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
        if not matched:
            raise missing_path(pattern, "SHOW DATABASES lists what there is")
        for name in matched:
            jobs = tuple(record for record in catalog.jobs.all() if record.definition.database == name)
            stages[name] = RemoveDatabase(name, tuple(catalog.tables.all(name)), jobs)
    return list(stages.values())


def find_or_plan_database(device: PathPattern, session: PlanningContext) -> tuple[Database, list[Stage]]:
    if device.has_wildcard or device.nodes[0] != ROOT or len(device.nodes) < DEFAULT_LEVEL:
        raise illegal_path(device, "write a device such as root.plant.line1")
    name = database_of(join_path(device.nodes), session.context)
    if name is not None:
        return session.context.catalog.databases.get(name), []
    refuse_tables([device], session.context)
    database = new_database(join_path(device.nodes), session.context)
    return database, [MakeTree(database, if_not_exists=True)]


def plan_set_ttl(statement: SetTTL, session: PlanningContext) -> list[Stage]:
    pattern = statement.path
    refuse_tables([pattern], session.context)
    database = next((name for name in session.context.catalog.trees.databases() if may_lie_in(pattern, name)), None)
    if database is None:
        raise missing_path(pattern, "SHOW DATABASES lists what there is")
    return [ChangeTtl(database, str(pattern), statement.ttl_ms)]
