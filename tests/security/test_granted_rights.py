"""Every statement for a user with just the rights that it needs, and with all of them but one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pytest

import headrace
from headrace.errors import PermissionDeniedError
from headrace.model.access import Privilege
from headrace.service.rights import Action, ObjectKind, Right
from headrace.service.stage import required_rights
from headrace.service.statement_rights import statement_rights
from headrace.settings import load
from headrace.sql import parse
from tests.support.statement_cases import LAKE, PEOPLE, STATEMENTS, TREE_STATEMENTS, prepare_tables, prepare_tree

USER, PASSWORD = "eve0", "secret12"
TABLES: Final = (
    "create database d",
    "use d",
    "create stable readings (ts timestamp, a int, b double) tags (place varchar(20), floor int)",
    "create table dev1 using readings tags ('north', 1) dev2 using readings tags ('south', 2)",
    "insert into dev1 values (0, 1, 1.5)",
)
OF_JOBS: Final = {"continuous query": "USE_CQ", "pipe": "USE_PIPE"}
OF_KINDS: Final = {ObjectKind.FUNCTION: "USE_UDF", ObjectKind.TRIGGER: "USE_TRIGGER", ObjectKind.PIPE_PLUGIN: "USE_PIPE"} | OF_JOBS
FILTERED: Final = {Privilege.READ_DATA, Privilege.READ_SCHEMA}
"""Without these, what a statement would read is as if it did not exist."""


def grant_for(right: Right) -> str | None:
    """Return what to grant for a right: "" if everybody has it, None if only root or the owner of an object has."""
    action, target = right.action, right.target
    if isinstance(action, Privilege):
        return f"{action} on {grantable(target.name) if target.kind == ObjectKind.PATH else 'root.**'}"
    if action is Action.READ_SOME:
        return f"READ_DATA on {grantable(target.name)}"
    if target.kind in OF_KINDS:
        return None if action is Action.ALTER else f"{OF_KINDS[target.kind]} on root.**"
    if target.kind == ObjectKind.CATALOG:
        return {Action.OPERATE: "MAINTAIN on root.**", Action.DESCRIBE: ""}.get(action)
    if target.kind == ObjectKind.DATABASE:
        if target.database.startswith("root."):
            return "MANAGE_DATABASE on root.**"
        return f"READ on {target.database}.*" if action is Action.DESCRIBE else None
    if target.kind == "stream":
        return None if action is Action.ALTER else f"WRITE on {target.database}.*"
    if target.database.startswith("root."):
        return f"READ_DATA on {target.database}.**"
    if not target.database:
        return ""
    return f"{'READ' if action in {Action.READ, Action.READ_PART, Action.DESCRIBE} else 'WRITE'} on {target.database}.*"


def grantable(pattern: str) -> str:
    """Return the narrowest path of a grant that covers a pattern."""
    nodes = pattern.split(".")
    wild = next((number for number, node in enumerate(nodes) if "*" in node), None)
    return pattern if wild is None else ".".join([*nodes[:wild], "**"])


def is_covered(grant: str, others: Sequence[str]) -> bool:
    """Return whether one of some other grants is the same privilege on all paths above."""
    return any(other != grant and other.endswith("**") and grant.startswith(other.removesuffix("**")) for other in others)


@contextmanager
def granted(tree: headrace.Connection, tables: headrace.Connection, grants: Sequence[str], option: str = "") -> Iterator[None]:
    """Grant privileges for a while."""
    ways = [
        (tree, f"{grant} to user {USER}{option}", f"{grant} from user {USER}")
        if " on root." in grant
        else (tables, f"{grant} to {USER}", f"{grant} from {USER}")
        for grant in grants
    ]
    for connection, grant, _ in ways:
        connection.execute(f"grant {grant}")
    try:
        yield
    finally:
        for connection, _, revoke in ways:
            connection.execute(f"revoke {revoke}")


def is_allowed(user: headrace.Connection, sql: str) -> bool:
    """Return whether a user may execute a statement, which is planned only."""
    try:
        return user.session.allows(required_rights(user.session.stages(sql)))
    except PermissionDeniedError:
        return False


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, headrace.Connection]]:
    """Provide connections of root and of the user, by dialect, to a home with all that the statements name."""
    home = tmp_path_factory.mktemp("home")
    settings = load(home=home, external_locations=LAKE.name)
    with headrace.connect(settings=settings) as root, headrace.connect(settings=settings, dialect="iotdb") as trees:
        for sql in TABLES:
            root.execute(sql)
        prepare_tables(root)
        prepare_tree(trees)
        for sql in (*PEOPLE, f"create user {USER} '{PASSWORD}'"):
            trees.execute(sql)
        with (
            headrace.connect(settings=settings, user=USER, password=PASSWORD) as user,
            headrace.connect(settings=settings, dialect="iotdb", user=USER, password=PASSWORD) as tree_user,
        ):
            user.session.database = "d"
            yield {"root": root, "trees": trees, "tdengine": user, "iotdb": tree_user}


MORE: Final = {
    "alter user otto set password 'secret34'": ["READ_DATA on root.plant.**"],
    "drop user otto": ["READ_DATA on root.plant.**"],
}
"""What else is needed: nobody changes a user who may do more."""
CASES: Final = [("tdengine", sql) for sql in STATEMENTS] + [("iotdb", sql) for sql in TREE_STATEMENTS]


@pytest.mark.parametrize(("dialect", "sql"), CASES)
def test_the_rights_that_a_statement_needs_suffice_and_each_is_needed(
    connections: dict[str, headrace.Connection], dialect: str, sql: str
) -> None:
    root, trees, user = connections["root"], connections["trees"], connections[dialect]
    owner = root if dialect == "tdengine" else trees
    rights = dict.fromkeys((*statement_rights(parse(sql, dialect), USER), *required_rights(owner.session.stages(sql))))
    grants = [grant_for(right) for right in rights]
    option = " with grant option" if sql.startswith(("grant READ", "revoke READ")) else ""
    needed = list(dict.fromkeys((*(grant for grant in grants if grant), *MORE.get(sql, ()))))
    with granted(trees, root, needed, option):
        assert is_allowed(user, sql) is (None not in grants)
    unfiltered = {grant for grant, right in zip(grants, rights, strict=True) if right.is_whole or right.action not in FILTERED}
    for left_out in (grant for grant in needed if grant in unfiltered and not is_covered(grant, needed)):
        with granted(trees, root, [grant for grant in needed if grant != left_out]):
            assert not is_allowed(user, sql), left_out
