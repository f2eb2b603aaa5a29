"""Who manages users and roles gains nothing by it: nobody changes or gives what exceeds their own rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import AuthenticationError, NotFoundError, PermissionDeniedError

PASSWORD = "secret12"
USERS = ("vera", "otto", "chief", "clerk")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Provide the administrator's connection to a home where chief manages users, and clerk roles."""
    with headrace.connect(tmp_path / "home", dialect="iotdb") as connection:
        for user in USERS:
            connection.execute(f"create user {user} '{PASSWORD}'")
        connection.execute("grant MANAGE_USER on root.** to user chief")
        connection.execute("grant MANAGE_ROLE on root.** to user clerk")
        yield connection


def connected(root: headrace.Connection, user: str, password: str = PASSWORD) -> headrace.Connection:
    return headrace.connect(root.session.context.settings.home_path, dialect="iotdb", user=user, password=password)


def refuse(connection: headrace.Connection, sql: str, match: str) -> None:
    """Check that a statement is refused, and so is its EXPLAIN."""
    for text in (sql, f"explain {sql}"):
        with pytest.raises(PermissionDeniedError, match=match):
            connection.execute(text)


def test_only_root_changes_root(root: headrace.Connection) -> None:
    root.execute("grant ALL on root.** to user chief with grant option")
    token = root.session.context.catalog.tokens.create("root", "backup")
    with connected(root, "chief") as chief, connected(root, "root", token) as program:
        for connection in (chief, program):
            refuse(connection, "alter user root set password 'owned1234'", "Only the admin user")
        chief.execute("create role crew")
        refuse(chief, "grant role crew to `root`", "Only the admin user")
    with pytest.raises(AuthenticationError):
        connected(root, "root", "owned1234")
    root.execute("alter user root set password 'first1234'")
    with connected(root, "root", "first1234") as admin:
        admin.execute("alter user root set password 'other1234'")
    with connected(root, "root", "other1234") as admin:
        admin.execute("create user late 'secret12'")


@pytest.mark.parametrize(
    "grant",
    [
        "grant READ_DATA on root.plant.** to user vera",
        "grant USE_PIPE on root.** to user vera",
        "grant MANAGE_USER on root.** to user vera with grant option",
        "grant role readers to vera",
    ],
)
def test_a_user_with_more_rights_is_not_changed(root: headrace.Connection, grant: str) -> None:
    root.execute("create role readers")
    root.execute("grant READ_SCHEMA on root.plant.a.** to role readers")
    with connected(root, "chief") as chief:
        chief.execute("alter user vera set password 'changed12'")
        root.execute(grant)
        for sql in ("alter user vera set password 'stolen1234'", "drop user vera"):
            refuse(chief, sql, "User vera has a right that you do not have")
        chief.execute("drop user otto")
    connected(root, "vera", "changed12").close()


def test_rights_on_tables_count_too(root: headrace.Connection) -> None:
    with headrace.connect(root.session.context.settings.home_path) as admin, connected(root, "chief") as chief:
        for sql in (
            "create database d",
            "create stable d.m (ts timestamp, a int) tags (site int)",
            "grant read on d.m with site = 1 to vera",
        ):
            admin.execute(sql)
        reset = "alter user vera set password 'changed12'"
        admin.execute("grant read on d.m with site = 2 to chief")
        refuse(chief, reset, "READ_TABLE on d.m with")
        admin.execute("grant read on d.m with site = 1 to chief")
        chief.execute(reset)
        admin.execute("grant read on d.* to vera")
        refuse(chief, reset, r"READ_TABLE on d\.\*")
        admin.execute("grant read on *.* to chief")
        chief.execute(reset)


def test_who_gives_roles_gives_only_what_they_have(root: headrace.Connection) -> None:
    for sql in ("create role admins", "grant ALL on root.** to role admins", "create role readers", "grant role admins to vera"):
        root.execute(sql)
    root.execute("grant READ on root.plant.** to role readers")
    with connected(root, "clerk") as clerk:
        for sql in ("grant role admins to clerk", "grant role admins to otto", "revoke role admins from vera", "drop role admins"):
            refuse(clerk, sql, "Role admins has a right that you do not have")
        refuse(clerk, "grant role readers to clerk", "Role readers has a right")
        root.execute("grant WRITE on root.** to user clerk")
        clerk.execute("grant role readers to otto")
        clerk.execute("revoke role readers from otto")
        root.execute("grant READ on root.plant.** to role readers with grant option")
        refuse(clerk, "grant role readers to otto", "with grant option")
        for sql in ("create role plain", "grant role plain to otto", "drop role plain"):
            clerk.execute(sql)
        with pytest.raises(NotFoundError, match="808: Role missing does not exist"):
            clerk.execute("grant role missing to otto")
    assert root.execute("list privileges of user clerk").fetchall()[0][2] == "MANAGE_ROLE"


def test_a_name_of_a_dropped_user_is_the_administrators_to_give(root: headrace.Connection) -> None:
    root.execute("drop user vera")
    with connected(root, "chief") as chief:
        refuse(chief, "create user vera 'secret12'", "whose jobs a new one would own")
        chief.execute("create user fresh 'secret12'")
    root.execute("create user vera 'secret12'")
