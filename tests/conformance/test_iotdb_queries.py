"""Queries over a tree of devices return what a running IoTDB 1.3.4 returned: rows, names and order of columns, and refusals.

Each line of `iotdb_queries.jsonl` has a query and its recorded columns and rows, or the message of its refusal, and
`iotdb_setup.sql` has the devices. The queries run in the order of the file, as some write series that later ones read.
Instants are epoch milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.settings import load
from headrace.sql import parse_script
from tests.conformance.results import TOLERANCE, comparable, results_match

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HERE = Path(__file__).parent
CASES = [json.loads(line) for line in (HERE / "iotdb_queries.jsonl").read_text().splitlines()]
ANSWERED = [case for case in CASES if "rows" in case]
REFUSED = [case for case in CASES if "error" in case]


@pytest.fixture(scope="module", params=[50_000_000, 0], ids=["local", "spark"])
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("conformance")
    clock = headrace.ManualClock(1_700_000_000_000)
    with headrace.connect(settings=load(home=home, local_rows=request.param), dialect="iotdb", clock=clock) as opened:
        for statement, _ in parse_script((HERE / "iotdb_setup.sql").read_text(), "iotdb"):
            opened.execute(statement)
        yield opened


@pytest.mark.parametrize("case", ANSWERED, ids=[case["id"] for case in ANSWERED])
def test_a_query_returns_the_recorded_rows(connection: headrace.Connection, case: dict[str, Any]) -> None:
    cursor = connection.execute(case["query"])
    actual = [[comparable(value) for value in row] for row in cursor.fetchall()]
    expected = [[comparable(value) for value in row] for row in case["rows"]]
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == case["columns"]
    equal = results_match(actual, expected, case.get("tolerance", TOLERANCE))
    assert equal, f"{case['query']}\ngot      {actual}\nexpected {expected}"


@pytest.mark.parametrize("case", REFUSED, ids=[case["id"] for case in REFUSED])
def test_an_invalid_query_is_refused(connection: headrace.Connection, case: dict[str, Any]) -> None:
    with pytest.raises(headrace.Error):
        connection.execute(case["query"])
