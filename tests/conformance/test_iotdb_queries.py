"""Statements over trees of devices return what a running IoTDB 1.3.4 returned: rows, names and order of columns, and refusals.

Each line of a `.jsonl` file has a statement and its recorded columns and rows, or the status and message of its refusal. The
`.sql` file beside it has the devices. The statements run in the order of the file, as some write series that later ones read.
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
SETUPS = ("iotdb_setup.sql", "iotdb_more_setup.sql")
CASES = [
    json.loads(line)
    for name in ("iotdb_queries.jsonl", "iotdb_more_queries.jsonl")
    for line in (HERE / name).read_text().splitlines()
]
ANSWERED = [case for case in CASES if "rows" in case]
REFUSED = [case for case in CASES if "error" in case]


@pytest.fixture(scope="module", params=[50_000_000, 0], ids=["local", "spark"])
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("conformance")
    clock = headrace.ManualClock(1_700_000_000_000)
    with headrace.connect(settings=load(home=home, local_rows=request.param), dialect="iotdb", clock=clock) as opened:
        for name in SETUPS:
            for statement, _ in parse_script((HERE / name).read_text(), "iotdb"):
                opened.execute(statement)
        yield opened


@pytest.mark.parametrize("case", ANSWERED, ids=[case["id"] for case in ANSWERED])
def test_a_query_returns_the_recorded_rows(connection: headrace.Connection, case: dict[str, Any]) -> None:
    cursor = connection.execute(case["query"])
    actual = [[comparable(value) for value in row] for row in cursor.fetchall()]
    expected = [[comparable(value) for value in row] for row in case["rows"]]
    assert [column[0] for column in cursor.description or []] == case["columns"]
    equal = results_match(actual, expected, case.get("tolerance", TOLERANCE))
    assert equal, f"{case['query']}\ngot      {actual}\nexpected {expected}"


@pytest.mark.parametrize("case", REFUSED, ids=[case["id"] for case in REFUSED])
def test_an_invalid_query_is_refused_with_the_recorded_status(connection: headrace.Connection, case: dict[str, Any]) -> None:
    with pytest.raises(headrace.Error) as refused:
        connection.execute(case["query"])
    assert str(refused.value.status) == case["error"].partition(":")[0]
