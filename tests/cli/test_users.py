"""`headrace user`: users, passwords and tokens that are shown once, and only to the administrator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.cli.system import print_first_password
from headrace.errors import AuthenticationError, Error, ExistsError, PermissionDeniedError
from headrace.settings import load


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with headrace.connect(tmp_path / "home", dialect="iotdb") as connection:
        connection.execute("insert into root.plant.d(time, v) values (1, 1)")
    return tmp_path / "home"


def run(home: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    result = CliRunner().invoke(app, ["user", *arguments, "--home", str(home)], env=env)
    if isinstance(result.exception, Error):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def secret_in(output: str) -> str:
    match = re.search(r": (\S+)\s*$", output)
    assert match is not None
    return match[1]


def values(home: Path, user: str, password: str) -> list[float]:
    with headrace.connect(home, dialect="iotdb", user=user, password=password) as connection:
        return [value for _, value in connection.execute("select v from root.plant.d").fetchall()]


def test_a_new_user_may_log_in_and_do_nothing_yet(home: Path) -> None:
    password = secret_in(run(home, "create", "vera"))
    assert values(home, "vera", password) == []
    with pytest.raises(AuthenticationError):
        values(home, "vera", f"{password}x")
    assert re.search(r"vera\s.*yes", run(home, "list"))
    with pytest.raises(ExistsError):
        run(home, "create", "vera")


def test_a_new_password_replaces_the_old_one(home: Path) -> None:
    first = secret_in(run(home, "create", "vera"))
    second = secret_in(run(home, "password", "vera"))
    values(home, "vera", second)
    with pytest.raises(AuthenticationError):
        values(home, "vera", first)


def test_the_administrator_gets_a_password_too(home: Path) -> None:
    password = secret_in(run(home, "password", "root"))
    assert values(home, "root", password) == [1.0]


@pytest.mark.parametrize("options", [{"doors": "iotdb"}, {"auth": "required"}])
def test_the_first_start_that_needs_a_password_shows_it_once(
    home: Path, options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_first_password(load(home=home))
    assert capsys.readouterr().out == ""
    print_first_password(load(home=home, **options))
    password = re.search(r"user root of Headrace, password (\S+)", capsys.readouterr().out)
    assert password is not None
    assert values(home, "root", password[1]) == [1.0]
    print_first_password(load(home=home, **options))
    assert capsys.readouterr().out == ""


def test_a_token_is_listed_without_its_secret_until_it_is_revoked(home: Path) -> None:
    run(home, "create", "vera")
    with headrace.connect(home, dialect="iotdb") as connection:
        connection.execute("grant read, write on root.** to user vera")
    token = secret_in(run(home, "token", "vera", "--purpose", "dashboard", "--days", "90", "--read-only"))
    assert values(home, "vera", token) == [1.0]
    with headrace.connect(home, dialect="iotdb", user="vera", password=token) as connection, pytest.raises(PermissionDeniedError):
        connection.execute("insert into root.plant.d(time, v) values (2, 2)")
    listed = run(home, "tokens")
    assert token not in listed
    row = next(line for line in listed.splitlines() if "dashboard" in line)
    assert "vera" in row
    assert "read" in row
    run(home, "revoke", row.split()[0])
    assert "dashboard" not in run(home, "tokens")
    with pytest.raises(AuthenticationError):
        values(home, "vera", token)


def test_who_is_not_the_administrator_manages_no_users(home: Path) -> None:
    password = secret_in(run(home, "create", "vera"))
    env = {"HEADRACE_USER": "vera", "HEADRACE_PASSWORD": password}
    for arguments in (["list"], ["create", "eve"], ["password", "root"], ["token", "root"], ["tokens"], ["revoke", "x"]):
        with pytest.raises(PermissionDeniedError):
            run(home, *arguments, env=env)
    assert "eve" not in run(home, "list")


def test_a_user_or_token_that_does_not_exist_is_named(home: Path) -> None:
    for arguments in (["password", "nobody"], ["token", "nobody"], ["revoke", "1234"]):
        with pytest.raises(Error, match=arguments[1]):
            run(home, *arguments)
