"""Queries over trees, recomputed without Spark, return what a running IoTDB returned; other results are found to differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace
from headrace.errors import DataError, NotSupportedError
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.tree_verification import tree_source, verify_tree_range
from headrace.sql import parse, parse_script
from headrace.trees.scope import tree_scope
from headrace.verify.iotdb import TreeSource, recompute_tree, verify_tree, within
from tests.conformance.results import TOLERANCE, comparable, results_match

CONFORMANCE = Path(__file__).parent.parent / "conformance"
CASES = [
    json.loads(line)
    for name in ("iotdb_queries.jsonl", "iotdb_more_queries.jsonl")
    for line in (CONFORMANCE / name).read_text().splitlines()
]
SETUP = "".join((CONFORMANCE / name).read_text() for name in ("iotdb_setup.sql", "iotdb_more_setup.sql"))
WRITTEN = [name for case in CASES for name in re.findall(r" into (root[\w.]+)\(", case["query"]) if name not in SETUP]
"""Devices that only other cases write to, which are not played here."""
ANSWERED = [
    case
    for case in CASES
    if "rows" in case
    and case["query"].startswith("select")
    and " into " not in case["query"]
    and not any(target in case["query"] for target in WRITTEN)
]
MIN_RECOMPUTED = 230


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("trees")
    with headrace.connect(home, dialect="iotdb", clock=headrace.ManualClock(1_700_000_000_000)) as opened:
        for name in ("iotdb_setup.sql", "iotdb_more_setup.sql"):
            for statement, _ in parse_script((CONFORMANCE / name).read_text(), "iotdb"):
                opened.execute(statement)
        yield opened


def tree_query(sql: str) -> TreeQuery:
    statement = parse(sql, "iotdb")
    assert isinstance(statement, TreeSelect)
    return statement.query


def source_of(connection: headrace.Connection, query: TreeQuery) -> TreeSource:
    state = connection.session
    return tree_source(tree_scope(query, state.context), state.context)


def test_recorded_answers_are_recomputed(connection: headrace.Connection) -> None:
    wrong, recomputed = [], 0
    for case in ANSWERED:
        query = tree_query(case["query"])
        try:
            answer, rows = recompute_tree(query, source_of(connection, query))
        except NotSupportedError:
            continue
        if answer is None:
            assert not case["rows"], case["query"]
            continue
        recomputed += 1
        positions = [case["columns"].index(name) for name in answer.names] if set(answer.names) == set(case["columns"]) else []
        expected = listed(query, [[comparable(row[position]) for position in positions] for row in case["rows"]])
        actual = listed(query, [[comparable(value) for value in row] for row in rows])
        if not positions or not results_match(actual, expected, case.get("tolerance", TOLERANCE)):
            wrong.append(f"{case['query']}\n{answer.names}\ngot      {actual}\nexpected {case['columns']} {expected}")
    assert not wrong, "\n\n".join(wrong)
    assert recomputed >= MIN_RECOMPUTED, recomputed


def listed(query: TreeQuery, rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows in an order of their own if they are of groups of tags: the server orders these by a hash."""
    return sorted(rows, key=repr) if query.grouping is not None and query.grouping.tags else rows


COUNTS = "select count(s1) as n, max_value(s2) as high from root.plant.d1 group by ([1700000000000, 1700000060000), 20s)"


def counts(high: int = 7201, names: tuple[str, ...] = ("Time", "n", "high")) -> pa.Table:
    times = pa.array([1_700_000_000_000, 1_700_000_020_000, 1_700_000_040_000], pa.timestamp("ms", "UTC"))
    return pa.table([times, pa.array([4, 7, 5]), pa.array([6986, 8875, high])], names)


def test_a_result_that_differs_is_found_with_the_rows_behind_it(connection: headrace.Connection) -> None:
    query = tree_query(COUNTS)
    source = source_of(connection, query)
    high = recompute_tree(query, source)[1][2][2]
    assert verify_tree(query, lambda: counts(high), source).equal
    verification = verify_tree(query, lambda: counts(high + 1), source)
    assert verification.difference is not None
    assert verification.difference.columns == ("high",)
    assert verification.difference.expected == (1_700_000_040_000, 5, high)
    assert {row[0] // 20_000 for row in verification.difference.source.rows} == {1_700_000_040_000 // 20_000}
    assert verification.windows


def test_columns_are_paired_by_name(connection: headrace.Connection) -> None:
    query = tree_query(COUNTS)
    source = source_of(connection, query)
    table = counts(recompute_tree(query, source)[1][2][2])
    assert verify_tree(query, lambda: table.select(["high", "Time", "n"]), source).equal
    with pytest.raises(DataError, match=r"lacks the columns \['high'\]"):
        verify_tree(query, lambda: counts(names=("Time", "n", "low")), source)


def test_a_query_is_verified_within_a_range(connection: headrace.Connection) -> None:
    """As a continuous query needs it: GROUP BY names no range, and INTO says where the rows are."""
    written = "select count(s1) as n, max_value(s2) as high into root.out.d(n, high) from root.plant.d1 group by(20s)"
    query, state = tree_query(written), connection.session
    ranged = tree_query(COUNTS)
    _, expected = recompute_tree(ranged, source_of(connection, ranged))
    verification = verify_tree_range(
        query,
        1_700_000_000_000,
        1_700_000_060_000,
        lambda: counts(expected[2][2]),
        tree_scope(query, state.context),
        state.context,
    )
    assert (verification.equal, verification.rows) == (True, 3)


def test_a_query_without_windows_counts_the_rows_of_the_range(connection: headrace.Connection) -> None:
    query = within(tree_query("select s1 from root.plant.d1 where s1 > 0"), 1_700_000_016_757, 1_700_000_020_457)
    assert recompute_tree(query, source_of(connection, query))[1] == [(1_700_000_016_757, 2), (1_700_000_018_957, 5)]


@pytest.mark.parametrize(
    ("sql", "feature"),
    [
        ("select last s1 from root.plant.d1", "SELECT LAST"),
        ("select s1 into root.out.d(a) from root.plant.d1", "INTO"),
        ("select * from root.plant.d1 slimit 1", "SLIMIT"),
        ("select equal_size_bucket_random_sample(s1) from root.plant.d1", "the function equal_size_bucket_random_sample"),
        ("select equal_size_bucket_outlier_sample(s1) from root.plant.d1", "the function equal_size_bucket_outlier_sample"),
        ("select master_repair(s1, s2, s3, s4) from root.plant.d1", "the function master_repair"),
        ("select jexl(s1, 'expr'='x -> {x * 2}') from root.plant.d1", "the function jexl"),
        ("select top_k(s5, 'k'='3') from root.plant.d1", "top_k if the last of its points are equal"),
        ("select diff(difference(s1), 'ignoreNull'='false') from root.plant.d1", "diff of a time-series function"),
        ("select first_value(s1), count_time(*) from root.plant.* group by tags(site)", r"count_time\(.*\) with GROUP BY TAGS"),
        ("select s1 from root.plant.d1 where time < now()", r"now\(\)"),
        ("select first_value(s1) from root.plant.* group by level = 1", "first_value with GROUP BY LEVEL"),
    ],
)
def test_unsupported_queries_are_named(connection: headrace.Connection, sql: str, feature: str) -> None:
    query = tree_query(sql)
    with pytest.raises(NotSupportedError, match=feature):
        recompute_tree(query, source_of(connection, query))
