"""What small inputs answer, in other zones, units, types and dialects, as queries and as streams. Each run draws some of them."""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import headrace
from tests.support.drawing import drawn

DRAWN: Final = 12
TEXTS: Final = ("abc1", "A9", "a b", "tab\tx", "x.y", "d", ":", "C:\\dir", "C:\\\\dir", "a\nb")
NUMBERS: Final = range(10, 2010)
LISTS: Final = {"{many}": "{}", "{many halves}": "{}.5"}
MANY_TEXTS: Final = re.compile(r"\{many of (\w+)\}")


@dataclass(frozen=True)
class Answer:
    """The rows of a query after statements, with instants as text in UTC, or a part of its error."""

    name: str
    statements: tuple[str, ...]
    query: str
    right: list[tuple[Any, ...]] | str
    is_tree: bool


def answers() -> Iterator[Answer]:
    """Read the answers, whose format the first lines of the file describe."""
    text = (Path(__file__).parent / "fixtures" / "answers.sql").read_text()
    for number, block in enumerate(text.strip().split("\n\n")[1:]):
        name, *lines = block.replace("root.c.", f"root.c{number}.").splitlines()
        statements = tuple(line for line in lines if line[:2] not in ("> ", "= ", "! "))
        (query,) = (line[2:] for line in lines if line.startswith("> "))
        errors = [line[2:] for line in lines if line.startswith("! ")]
        rows = [ast.literal_eval(line[2:]) for line in lines if line.startswith("= ") and line != "= nothing"]
        yield Answer(name[2:], statements, query, errors[0] if errors else rows, name.endswith("(tree)"))


def filled(sql: str) -> str:
    """Return a statement with its lists."""
    for name, form in LISTS.items():
        sql = sql.replace(name, ", ".join(map(form.format, NUMBERS)))
    return MANY_TEXTS.sub(lambda match: ", ".join(f"'{match[1]}{number}'" for number in NUMBERS), sql)


ANSWERS: Final = list(answers())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the databases of all answers."""
    return tmp_path_factory.mktemp("answers") / "home"


def plain(value: Any) -> Any:
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime.datetime) else value


def option(answer: Answer, name: str, default: str) -> str:
    return next((text.split()[1] for text in answer.statements if text.startswith(f"{name} ")), default)


def opened(home: Path, answer: Answer, database: str) -> headrace.Connection:
    """Return a connection to a database of the answer's own, or to the tree."""
    if answer.is_tree:
        return headrace.connect(home, dialect="iotdb")
    with headrace.connect(home) as connection:
        zone, precision = option(answer, "zone", "UTC"), option(answer, "precision", "ms")
        connection.execute(f"create database {database} timezone '{zone}' precision '{precision}'")
    return headrace.connect(home, database=database)


def play(connection: headrace.Connection, answer: Answer) -> list[tuple[Any, ...]] | str:
    try:
        for statement in answer.statements:
            if statement == "settle":
                connection.settle()
            elif statement == "texts":
                for number, value in enumerate(TEXTS):
                    connection.execute("insert into t values (?, ?)", (number + 1, value))
            elif not statement.startswith(("zone ", "precision ")):
                connection.execute(filled(statement))
        return [tuple(map(plain, row)) for row in connection.execute(filled(answer.query)).fetchall()]
    except headrace.Error as error:
        return str(error)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("number", drawn(range(len(ANSWERS)), "answers", DRAWN), ids=lambda number: ANSWERS[number].name)
def test_the_answer_is_right(home: Path, number: int) -> None:
    database, answer = f"c{number}", ANSWERS[number]
    with opened(home, answer, database) as connection:
        found = play(connection, answer)
    if isinstance(answer.right, str):
        assert answer.right in str(found)
    else:
        assert found == answer.right
