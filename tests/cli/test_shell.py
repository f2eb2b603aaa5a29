"""`headrace sql` at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace.cli.completion import Completion
from headrace.cli.shell import is_complete, statement_of
from headrace.sql import lexis_of
from tests.cli.terminal import Terminal

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    with headrace.connect(folder) as connection:
        connection.execute("create database cold")
        connection.execute("create stable cold.rooms (ts timestamp, temperature double) tags (site varchar(9))")
        connection.execute("create table cold.a1 using cold.rooms tags ('north')")
    return folder


@pytest.fixture
def opened(home: Path) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def start(*options: str) -> Terminal:
        terminals.append(Terminal(["sql", *options], home))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def test_statements_are_typed_over_lines_and_answered(opened: Callable[..., Terminal], home: Path) -> None:
    terminal = opened()
    terminal.expect("headrace>")
    terminal.ask("use cold;", "OK", "cold>")
    terminal.type("show\r")
    terminal.expect("->")
    terminal.ask("tables;", "rooms", "cold>")
    terminal.ask("select x from;", "error [SYNTAX]", "cold>")
    terminal.ask("describe nothing;", "error [NOT_FOUND]", "cold>")
    terminal.ask("\\d rooms", "temperature", "cold>")
    terminal.ask("\\l", "precision", "cold>")
    terminal.ask("\\?", "Ctrl-D", "cold>")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert "describe nothing;" in (home / "sql_history").read_text()
    assert (home / "sql_history").stat().st_mode & 0o077 == 0


def test_an_error_is_underlined(opened: Callable[..., Terminal]) -> None:
    terminal = opened("-d", "cold")
    terminal.expect("cold>")
    terminal.type("select tempreature from rooms;\r")
    terminal.expect("line 1, column 8:")
    terminal.expect("^^^^^^^^^^^")
    terminal.expect("did you mean temperature?")


def test_ctrl_c_cancels_the_line_and_the_up_arrow_brings_one_back(opened: Callable[..., Terminal]) -> None:
    terminal = opened("-d", "cold")
    terminal.expect("cold>")
    terminal.ask("show databases;", "precision", "cold>")
    terminal.type("drop stable rooms" + CTRL_C)
    terminal.expect("cold>")
    terminal.type(UP + "\r")
    terminal.expect("precision")
    terminal.expect("cold>")
    terminal.type("\\q\r")
    assert terminal.end() == 0
    again = opened("-d", "cold")
    again.expect("cold>")
    again.type(UP)
    again.expect("\\q")


def test_tab_completes_what_is_typed(opened: Callable[..., Terminal]) -> None:
    terminal = opened("-d", "cold")
    terminal.expect("cold>")
    for typed, completed in (("descr", "describe"), (" roo", "rooms")):
        terminal.type(f"{typed}\t")
        terminal.expect(completed)
    terminal.ask(";", "temperature", "cold>")


@pytest.mark.spark
def test_it_says_that_spark_starts_and_starts_it_once(opened: Callable[..., Terminal]) -> None:
    terminal = opened("-d", "cold")
    terminal.expect("cold>")
    terminal.type("select 40 + 2 answer;\r")
    terminal.expect("starting Spark…")
    terminal.expect("answer")
    terminal.expect("cold>")
    terminal.type("select 5 + 2 answer;\r")
    assert "starting Spark" not in terminal.expect("answer\n") + terminal.expect("7")
    terminal.expect("cold>")
    terminal.type(CTRL_D)
    assert terminal.end() == 0


@pytest.mark.parametrize(
    ("word", "text", "expected"),
    [
        ("SEL", "SEL", ["SELECT"]),
        ("roo", "select * from roo", ["rooms"]),
        ("tem", "select tem", ["temperature"]),
        ("cold.", "cold.", ["cold.rooms"]),
        ("_wst", "_wst", ["_wstart"]),
        ("twa", "twa", ["twa"]),
        ("", "", []),
    ],
)
def test_completion_knows_keywords_functions_and_the_catalog(home: Path, word: str, text: str, expected: list[str]) -> None:
    with headrace.connect(home, database="cold") as connection:
        assert Completion(connection.session).choices(word, text) == expected


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  -- nothing", True),
        ("\\d", True),
        ("select 1", False),
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select ';", False),
        ("select ';'", False),
        ("select 1 /* ;", False),
    ],
)
def test_a_statement_is_complete_at_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text, lexis_of()) is complete


def test_commands_are_short_for_statements() -> None:
    assert statement_of("\\d a1") == "DESCRIBE a1"
    assert statement_of("\\s") == "SHOW STREAMS"
    assert statement_of("select 1;") == "select 1;"
