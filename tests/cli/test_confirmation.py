"""Questions before a statement that computes the results of a stream again, or takes rows and streams along."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import Error, ProgrammingError
from headrace.streams.kind import STREAM
from tests.cli.terminal import Terminal

CREATE = "stream s trigger at_once into o as select _wstart, {} v from t interval(1m)"
REPLACE = f"create or replace {CREATE.format('max(a)')}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    with headrace.connect(folder) as connection:
        connection.execute("create database d")
        connection.execute("use d")
        connection.execute("create table t (ts timestamp, a int)")
        connection.execute(f"create {CREATE.format('min(a)')}")
    return folder


def query(home: Path) -> str:
    with headrace.connect(home) as connection:
        return connection.session.context.catalog.jobs.get("d", "s", STREAM).definition.sql


def run(home: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["sql", *arguments, "-d", "d", "--home", str(home)])
    if isinstance(result.exception, Error):
        raise result.exception
    return result.output


def test_without_a_terminal_a_replacement_needs_the_option(home: Path) -> None:
    with pytest.raises(ProgrammingError) as caught:
        run(home, REPLACE)
    assert caught.value.hint == "add --yes"
    assert "min(a)" in query(home)


def test_the_option_answers_the_question(home: Path) -> None:
    output = run(home, REPLACE, "--yes")
    assert "replace stream d.s" in output
    assert "recompute 0 stored rows of d.t" in output
    assert "max(a)" in query(home)


@pytest.mark.parametrize(("answer", "replaced"), [("y", True), ("n", False)])
def test_a_terminal_is_asked(home: Path, answer: str, replaced: bool) -> None:
    terminal = Terminal(["sql", REPLACE, "-d", "d"], home)
    try:
        terminal.expect("replace stream d.s")
        terminal.expect("Replace the stream?")
        terminal.type(f"{answer}\r")
        assert terminal.wait() == (0 if replaced else 1)
    finally:
        terminal.close()
    assert ("max(a)" in query(home)) == replaced


@pytest.mark.parametrize(
    "statement",
    [
        f"create or replace {CREATE.format('min(a)')}",
        f"create or replace {CREATE.format('min(a)').replace('at_once', 'at_once watermark 1s')}",
        "create or replace stream other trigger at_once into o2 as select _wstart, count(*) from t interval(1m)",
        "reset stream s",
    ],
)
def test_other_statements_are_not_asked_about(home: Path, statement: str) -> None:
    assert "Replace" not in run(home, statement)


DROP = "drop database d"


def databases(home: Path) -> list[str]:
    with headrace.connect(home) as connection:
        return [database.name for database in connection.session.context.catalog.databases.all()]


@pytest.mark.parametrize("options", [(), ("--yes",)])
def test_a_script_drops_what_it_names(home: Path, options: tuple[str, ...]) -> None:
    assert "Drop?" not in run(home, DROP, *options)
    assert databases(home) == []


@pytest.mark.parametrize(("answer", "left"), [("y", []), ("n", ["d"])])
def test_a_terminal_is_asked_about_what_a_drop_takes_along(home: Path, answer: str, left: list[str]) -> None:
    terminal = Terminal(["sql", f"drop table if exists nothing; {DROP}", "-d", "d"], home)
    try:
        for line in ("This drops", "table d.t", "stream d.s", "Drop?"):
            terminal.expect(line)
        terminal.type(f"{answer}\r")
        assert terminal.wait() == len(left)
    finally:
        terminal.close()
    assert databases(home) == left
