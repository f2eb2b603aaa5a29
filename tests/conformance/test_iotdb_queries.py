"""Statements over trees of devices return what a running IoTDB 1.3.4 returned: rows, names and order of columns, and refusals.

Each line of a `.jsonl` file has a statement and its recorded columns and rows, or the status and message of its refusal. The
`.sql` file beside it has the devices. The statements run in the order of the file, as some write series that later ones read.
Instants are epoch milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.settings import load
from headrace.sql import parse_script
from tests.conformance.results import TOLERANCE, comparable, results_match
from tests.support.drawing import is_drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HERE = Path(__file__).parent
SETUPS = ("iotdb_setup.sql", "iotdb_more_setup.sql", "iotdb_clauses_setup.sql")
CASES = [
    json.loads(line)
    for name in ("iotdb_queries.jsonl", "iotdb_more_queries.jsonl", "iotdb_clauses_queries.jsonl")
    for line in (HERE / name).read_text().splitlines()
]
ANSWERED = [case for case in CASES if "rows" in case]
REFUSED = [case for case in CASES if "error" in case]
WRITING = re.compile(r"\binto\b|^\s*(?:create|alter|drop|delete|deactivate|unset|set)\b", re.IGNORECASE)


def set_of(case: dict[str, Any]) -> str:
    """Return the name of the set of cases that a case belongs to."""
    return str(case["id"]).rpartition("/")[0]


ORDERED = {set_of(case) for case in CASES if WRITING.search(case["query"])}
"""Sets of cases of which some write what others read: each run takes them whole."""
DRAWN = [pytest.param(case, id=case["id"], marks=() if set_of(case) in ORDERED else pytest.mark.drawn(2)) for case in ANSWERED]

SPARK_SHARE = 5
"""One of so many queries is evaluated on Spark as well; those that write are all, since others read what they have written."""


@contextmanager
def connect(home: Path, local_rows: int) -> Iterator[headrace.Connection]:
    """Yield a connection to a home with the recorded devices, whose queries may read so many rows without Spark."""
    clock = headrace.ManualClock(1_700_000_000_000)
    with headrace.connect(settings=load(home=home, local_rows=local_rows), dialect="iotdb", clock=clock) as opened:
        for name in SETUPS:
            for statement, _ in parse_script((HERE / name).read_text(), "iotdb"):
                opened.execute(statement)
        yield opened


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with connect(tmp_path_factory.mktemp("local"), 50_000_000) as opened:
        yield opened


@pytest.fixture(scope="module")
def spark_connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with connect(tmp_path_factory.mktemp("spark"), 0) as opened:
        yield opened


def check(connection: headrace.Connection, case: dict[str, Any]) -> None:
    cursor = connection.execute(case["query"])
    actual = [[comparable(value) for value in row] for row in cursor.fetchall()]
    expected = [[comparable(value) for value in row] for row in case["rows"]]
    assert [column[0] for column in cursor.description or []] == case["columns"]
    equal = results_match(actual, expected, case.get("tolerance", TOLERANCE))
    assert equal, f"{case['query']}\ngot      {actual}\nexpected {expected}"


def is_left_to_spark(connection: headrace.Connection, query: str) -> bool:
    """Return whether a query is evaluated on Spark, however few rows it reads."""
    return any("query on Spark" in line for (line,) in connection.execute(f"explain {query}").fetchall())


@pytest.mark.parametrize("case", DRAWN)
def test_a_query_returns_the_recorded_rows(
    connection: headrace.Connection, spark_connection: headrace.Connection, case: dict[str, Any]
) -> None:
    check(connection, case)
    writes = " into " in case["query"].lower()
    if writes or (is_drawn(case["id"], SPARK_SHARE) and not is_left_to_spark(connection, case["query"])):
        check(spark_connection, case)


@pytest.mark.parametrize("case", REFUSED, ids=[case["id"] for case in REFUSED])
def test_an_invalid_query_is_refused_with_the_recorded_status(connection: headrace.Connection, case: dict[str, Any]) -> None:
    with pytest.raises(headrace.Error) as refused:
        connection.execute(case["query"])
    assert str(refused.value.status) == case["error"].partition(":")[0]
