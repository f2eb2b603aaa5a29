"""Windows, FILL, functions and expressions over random readings return what a running TDengine returned.

Each line of `queries.jsonl` has a query and its recorded rows, and `setup.sql` has the tables. Instants are epoch milliseconds.
`differences.toml` lists deliberate differences; remove entries that no longer differ.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import NotSupportedError
from headrace.settings import load
from headrace.sql import parse_script
from tests.conformance.results import TOLERANCE, comparable, results_match
from tests.support.drawing import drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HERE = Path(__file__).parent
CASES = [json.loads(line) for line in (HERE / "queries.jsonl").read_text().splitlines()]
DIFFERENCES = {entry["id"]: entry["why"] for entry in tomllib.loads((HERE / "differences.toml").read_text())["difference"]}


WINDOWS = ("interval(", "session(", "state_window(", "event_window", "count_window(")
WINDOWED = [case for case in CASES if any(word in case["query"].lower() for word in WINDOWS)]
BY_KERNELS = drawn(WINDOWED, "queries by kernels", len(WINDOWED) // 5)
"""One of five queries over windows runs a second time, by kernels."""
CLOCK = headrace.ManualClock(1_700_000_000_000)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("conformance")
    with headrace.connect(home, clock=CLOCK) as opened:
        for statement, _ in parse_script((HERE / "setup.sql").read_text()):
            opened.execute(statement)
        yield opened


@pytest.fixture(scope="module")
def kernels(connection: headrace.Connection) -> Iterator[headrace.Connection]:
    """Provide a connection to the same tables that refuses windows that kernels cannot compute in Spark's tasks."""
    with connect_far(connection, kernels="always") as opened:
        yield opened


@pytest.fixture(scope="module")
def far(connection: headrace.Connection) -> Iterator[headrace.Connection]:
    """Provide a connection to the same tables whose queries run on Spark."""
    with connect_far(connection) as opened:
        yield opened


@contextmanager
def connect_far(connection: headrace.Connection, **settings: Any) -> Iterator[headrace.Connection]:
    session = connection.session
    own = load(home=session.context.settings.home, local_rows=0, **settings)
    with headrace.connect(settings=own, clock=CLOCK) as opened:
        opened.execute(f"use {session.database}")
        yield opened


@pytest.mark.drawn(2)
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_spark_returns_the_recorded_rows(far: headrace.Connection, case: dict[str, Any]) -> None:
    check(far, case)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_query_returns_the_recorded_rows(connection: headrace.Connection, case: dict[str, Any]) -> None:
    check(connection, case)


@pytest.mark.parametrize("case", BY_KERNELS, ids=[case["id"] for case in BY_KERNELS])
def test_kernels_return_the_recorded_rows(kernels: headrace.Connection, case: dict[str, Any]) -> None:
    try:
        check(kernels, case)
    except NotSupportedError as error:
        pytest.skip(str(error))


def check(connection: headrace.Connection, case: dict[str, Any]) -> None:
    """Compare the result of a query with the recorded rows."""
    actual = [[comparable(value) for value in row] for row in connection.execute(case["query"]).fetchall()]
    expected = [[comparable(value) for value in row] for row in case["rows"]]
    if not case.get("ordered", True):
        actual, expected = sorted(actual, key=repr), sorted(expected, key=repr)
    equal = results_match(actual, expected, case.get("tolerance", TOLERANCE))
    if case["id"] in DIFFERENCES:
        assert not equal, f"{case['id']} no longer differs: remove it from differences.toml"
    else:
        assert equal, f"{case['query']}\ngot      {actual}\nexpected {expected}"


PLAYED_ELSEWHERE = ("rec-", "td-", "fn_", "q_", "pipe_", "trigger_", "udf_", "udaf_", "libudf_", "rights_")
"""Ids of streams, of what users may do, and of examples of IoTDB's guide, also of what is not offered yet."""


def test_few_answers_differ() -> None:
    queries = {name for name in DIFFERENCES if not name.startswith(PLAYED_ELSEWHERE)}
    assert queries <= {case["id"] for case in CASES}
    assert len(queries) <= len(CASES) * 0.03
