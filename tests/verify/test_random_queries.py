"""Random queries on Spark and on DuckDB.

HEADRACE_VERIFY_QUERIES is their number, HEADRACE_VERIFY_SEED the first seed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.verify import verify
from tests.verify.generator import queries
from tests.verify.spark_side import SparkSide
from tests.verify.tables import parse_query
from tests.verify.worlds import world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = int(os.environ.get("HEADRACE_VERIFY_QUERIES", "75"))
FIRST_SEED = int(os.environ.get("HEADRACE_VERIFY_SEED", "1"))
QUERIES_PER_WORLD = 25
MAX_EMPTY_SHARE = 0.4


@pytest.fixture(scope="session")
def side(spark: SparkSession) -> SparkSide:
    return SparkSide(spark)


@pytest.mark.spark
@pytest.mark.timeout(max(300, QUERIES * 10))
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + -(-QUERIES // QUERIES_PER_WORLD)))
def test_both_engines_give_the_same_answers(side: SparkSide, seed: int) -> None:
    tables = world(seed)
    side.enter(tables)
    wrong, empty = [], 0
    for sql in queries(seed * 1_000, tables, QUERIES_PER_WORLD):
        query = parse_query(sql)
        answer = side.answer(query)
        empty += answer.num_rows == 0
        verdict = verify(query, lambda answer=answer: answer, tables.lookup)  # type: ignore[misc]
        if not verdict.equal:
            wrong.append(f"{sql}\n{verdict.difference}")
    assert not wrong, f"{tables.database.timezone}, {tables.database.precision}\n" + "\n\n".join(wrong)
    assert empty < MAX_EMPTY_SHARE * QUERIES_PER_WORLD
