"""The rights that the text of a statement needs, asked for before names in it are looked up.

So a refusal says nothing about what exists. Rights to read paths are no condition of a statement: paths that may not be read are as
if they did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from headrace.model import access_statements as access
from headrace.model import pipe_plugin_statements as plugins
from headrace.model import statements as tables
from headrace.model import tree_statements as tree
from headrace.model.access import ADMINISTRATOR, GranteeKind, Privilege
from headrace.model.external_statements import CreateExternalTable
from headrace.model.paths import PathPattern
from headrace.model.statements import Explain, Statement
from headrace.service.rights import ADMINISTER, Action, Right, globally, on_catalog, on_database, on_paths

Rights = tuple[Right, ...]

MANAGE_USER: Final = globally(Privilege.MANAGE_USER)
MANAGE_ROLE: Final = globally(Privilege.MANAGE_ROLE)
SHOWS: Final[Mapping[str, Rights]] = {
    "continuous queries": globally(Privilege.USE_CQ),
    "cq executions": globally(Privilege.USE_CQ),
    "functions": globally(Privilege.USE_UDF),
    "triggers": globally(Privilege.USE_TRIGGER),
    "pipe": globally(Privilege.USE_PIPE),
    "pipes": globally(Privilege.USE_PIPE),
    "pipeplugins": globally(Privilege.USE_PIPE),
    "queries": globally(Privilege.MAINTAIN),
    "device templates": ADMINISTER,
    "nodes in template": ADMINISTER,
    "paths set template": ADMINISTER,
    "audit log": ADMINISTER,
}
"""SHOW of what is not on paths."""
GLOBAL: Final[Mapping[Privilege, tuple[type[Statement], ...]]] = {
    Privilege.MANAGE_DATABASE: (tree.CreateTreeDatabase, tree.DropTreeDatabases),
    Privilege.USE_UDF: (tree.CreateFunction, tree.DropFunction, tables.CreateModuleFunction, tables.DropModuleFunction),
    Privilege.USE_TRIGGER: (tree.CreateTrigger, tree.DropTrigger, tree.StartTrigger, tree.StopTrigger),
    Privilege.USE_CQ: (
        *(tree.CreateContinuousQuery, tree.DropContinuousQuery),
        *(tree.PauseContinuousQuery, tree.ResumeContinuousQuery),
    ),
    Privilege.USE_PIPE: (
        *(tree.CreatePipe, tree.AlterPipe, tree.DropPipe, tree.StartPipe, tree.StopPipe),
        *(plugins.CreatePipePlugin, plugins.DropPipePlugin),
    ),
    Privilege.USE_EXTERNAL: (CreateExternalTable,),
    Privilege.MANAGE_USER: (access.CreateUser, access.DropUser),
    Privilege.MANAGE_ROLE: (access.CreateRole, access.DropRole, access.GrantRole),
    Privilege.EXTEND_TEMPLATE: (tree.AlterTemplate,),
}
"""Statements that need a privilege which is not on paths."""
ADMINISTRATIVE: Final = (tree.CreateTemplate, tree.DropTemplate, tree.SetTemplate, access.GrantTables, access.GrantSecret)


def statement_rights(statement: Statement, user: str) -> Rights:
    """Return the rights that the text of a statement needs; none if it needs none, or its stages say it."""
    match statement:
        case Explain(statement=inner):
            return statement_rights(inner, user)
        case tree.TreeShow(what=what):
            return SHOWS.get(what, ())
        case access.AlterUser(name=name):
            return () if name == user else ADMINISTER if name == ADMINISTRATOR else MANAGE_USER
        case access.AccessStatement() if type(statement) in LISTS:
            return LISTS[type(statement)](statement, user)
    if isinstance(statement, ADMINISTRATIVE):
        return ADMINISTER
    return PLAIN[type(statement)](statement) if type(statement) in PLAIN else ()


def _list_users(_: access.ListUsers, __: str) -> Rights:
    return MANAGE_USER


def _list_roles(statement: access.ListRoles, user: str) -> Rights:
    return () if statement.user == user else MANAGE_ROLE


def _list_privileges(statement: access.ListPrivileges, user: str) -> Rights:
    if statement.grantee.kind is GranteeKind.ROLE:
        return ()  # The planner allows it for the user's own roles.
    return () if statement.grantee.name == user else MANAGE_USER


LISTS: Final[Mapping[type[Statement], Callable[[Any, str], Rights]]] = {
    access.ListUsers: _list_users,
    access.ListRoles: _list_roles,
    access.ListPrivileges: _list_privileges,
}


def _created_series(statement: tree.CreateTimeseries) -> Rights:
    nodes = statement.device.nodes
    return on_paths(Privilege.WRITE_SCHEMA, [PathPattern((*nodes, spec.measurement)) for spec in statement.series])


def _inserted(statement: tree.TreeInsert) -> Rights:
    nodes = statement.device.nodes
    return on_paths(Privilege.WRITE_DATA, [PathPattern((*nodes, name)) for name in statement.measurements])


def _patterns(privilege: Privilege, statement: Any) -> Rights:
    return on_paths(privilege, statement.patterns)


def _path(privilege: Privilege, statement: Any) -> Rights:
    return on_paths(privilege, (statement.path,))


def _database(action: Action, statement: Any) -> Rights:
    return on_database(action, statement.name.name)


def _snode(_: Statement) -> Rights:
    return on_catalog(Action.ALTER)


def _global(privilege: Privilege, _: Statement) -> Rights:
    return globally(privilege)


PLAIN: Final[Mapping[type[Statement], Callable[[Any], Rights]]] = {
    tree.CreateTimeseries: _created_series,
    tree.DropTimeseries: partial(_patterns, Privilege.WRITE_SCHEMA),
    tree.AlterTimeseries: partial(_path, Privilege.WRITE_SCHEMA),
    tree.SetTTL: partial(_path, Privilege.WRITE_SCHEMA),
    tree.ActivateTemplate: partial(_path, Privilege.WRITE_SCHEMA),
    tree.DeactivateTemplate: partial(_patterns, Privilege.WRITE_SCHEMA),
    tree.TreeInsert: _inserted,
    tree.TreeDelete: partial(_patterns, Privilege.WRITE_DATA),
    tables.CreateDatabase: partial(_database, Action.CREATE),
    tables.AlterDatabase: partial(_database, Action.ALTER),
    tables.MaintainDatabase: partial(_database, Action.ALTER),
    tables.DropDatabase: partial(_database, Action.DROP),
    tables.CreateSnode: _snode,
    tables.DropSnode: _snode,
    tree.CreateExternalDatabase: lambda _: (*globally(Privilege.USE_EXTERNAL), *globally(Privilege.MANAGE_DATABASE)),
    **{kind: partial(_global, privilege) for privilege, kinds in GLOBAL.items() for kind in kinds},
}
"""Statements whose rights do not depend on the user."""
