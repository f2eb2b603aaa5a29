"""`headrace sql` at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace.cli.completion import SqlCompleter
from headrace.cli.shell import is_complete
from headrace.cli.shell_dialects import IOTDB, TDENGINE
from headrace.sql import lexical_rules_of
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
def open_terminal(home: Path) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def start(*options: str) -> Terminal:
        terminals.append(Terminal(["sql", *options], home))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def test_statements_may_span_lines(open_terminal: Callable[..., Terminal], home: Path) -> None:
    terminal = open_terminal()
    terminal.expect("headrace>")
    terminal.run("use cold;", "OK", "cold>")
    terminal.type("show\r")
    terminal.expect("->")
    terminal.run("tables;", "rooms", "cold>")
    terminal.run("select x from;", "error [SYNTAX]", "cold>")
    terminal.run("describe nothing;", "error [NOT_FOUND]", "cold>")
    terminal.run("\\d rooms", "temperature", "cold>")
    terminal.run("\\l", "precision", "cold>")
    terminal.run("\\?", "Ctrl-D", "cold>")
    terminal.type(CTRL_D)
    assert terminal.wait() == 0
    assert "describe nothing;" in (home / "sql_history").read_text()
    assert (home / "sql_history").stat().st_mode & 0o077 == 0


def test_an_error_is_underlined(open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal("-d", "cold")
    terminal.expect("cold>")
    terminal.type("select tempreature from rooms;\r")
    terminal.expect("line 1, column 8:")
    terminal.expect("^^^^^^^^^^^")
    terminal.expect("did you mean temperature?")


def test_ctrl_c_cancels_the_input_and_the_up_arrow_recalls_a_line(open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal("-d", "cold")
    terminal.expect("cold>")
    terminal.run("show databases;", "precision", "cold>")
    terminal.type("drop stable rooms" + CTRL_C)
    terminal.expect("cold>")
    terminal.type(UP + "\r")
    terminal.expect("precision")
    terminal.expect("cold>")
    terminal.type("\\q\r")
    assert terminal.wait() == 0
    second = open_terminal("-d", "cold")
    second.expect("cold>")
    second.type(UP)
    second.expect("\\q")


def test_tab_completes_the_input(open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal("-d", "cold")
    terminal.expect("cold>")
    for typed, completed in (("descr", "describe"), (" roo", "rooms")):
        terminal.type(f"{typed}\t")
        terminal.expect(completed)
    terminal.run(";", "temperature", "cold>")


@pytest.fixture
def tree_home(tmp_path: Path) -> Path:
    folder = tmp_path / "trees"
    with headrace.connect(folder, dialect="iotdb") as connection:
        connection.execute("create timeseries root.plant.line1.speed with datatype=INT32")
        connection.execute("create timeseries root.plant.line2.speed with datatype=INT32")
    return folder


def test_the_shell_speaks_the_iotdb_dialect(tree_home: Path) -> None:
    terminal = Terminal(["sql", "--dialect", "iotdb"], tree_home)
    try:
        terminal.expect("iotdb>")
        terminal.run("\\d", "root.plant.line2", "iotdb>")
        terminal.run("\\d root.plant.line1", "root.plant.line1.speed", "iotdb>")
        terminal.run("\\l", "root.plant", "iotdb>")
        terminal.run("insert into root.plant.line1(time, speed) values (1, 5);", "OK, 1 rows", "iotdb>")
        terminal.run("use cold;", "error [SYNTAX]", "iotdb>")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("SEL", ["SELECT"]),
        ("roo", ["root"]),
        ("root.", ["root.plant"]),
        ("root.plant.l", ["root.plant.line1", "root.plant.line2"]),
        ("root.plant.line1.s", ["root.plant.line1.speed"]),
        ("max_v", ["max_value"]),
    ],
)
def test_completion_suggests_paths_of_trees_node_by_node(tree_home: Path, word: str, expected: list[str]) -> None:
    with headrace.connect(tree_home, dialect="iotdb") as connection:
        assert SqlCompleter(connection.session).find_candidates(word, word) == expected


@pytest.mark.spark
def test_the_start_of_spark_is_announced_and_happens_once(open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal("-d", "cold")
    terminal.expect("cold>")
    terminal.type("select hyperloglog(temperature) + 42 answer from rooms;\r")
    terminal.expect("starting Spark…")
    terminal.expect("answer")
    terminal.expect("cold>")
    terminal.type("select hyperloglog(temperature) + 7 answer from rooms;\r")
    assert "starting Spark" not in terminal.expect("answer\n") + terminal.expect("7")
    terminal.expect("cold>")
    terminal.type(CTRL_D)
    assert terminal.wait() == 0


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
def test_completion_suggests_keywords_functions_and_names_of_the_catalog(
    home: Path, word: str, text: str, expected: list[str]
) -> None:
    with headrace.connect(home, database="cold") as connection:
        assert SqlCompleter(connection.session).find_candidates(word, text) == expected


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
    assert is_complete(text, lexical_rules_of()) is complete


def test_commands_expand_to_statements() -> None:
    assert TDENGINE.expand("\\d a1") == "DESCRIBE a1"
    assert TDENGINE.expand("\\s") == "SHOW STREAMS"
    assert TDENGINE.expand("select 1;") == "select 1;"
    assert IOTDB.expand("\\d root.plant.line1;") == "SHOW TIMESERIES root.plant.line1.**"
