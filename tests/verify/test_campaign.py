"""Random queries, answered by Spark and by DuckDB: HEADRACE_VERIFY_QUERIES says how many, HEADRACE_VERIFY_SEED where to begin."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.verify import verify
from tests.verify.generator import queries
from tests.verify.house import query_of
from tests.verify.spark_side import Side
from tests.verify.worlds import world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = int(os.environ.get("HEADRACE_VERIFY_QUERIES", "150"))
FIRST = int(os.environ.get("HEADRACE_VERIFY_SEED", "1"))
OF_A_WORLD = 25
SHARE_OF_EMPTY = 0.4


@pytest.fixture(scope="session")
def side(spark: SparkSession) -> Side:
    return Side(spark)


@pytest.mark.spark
@pytest.mark.timeout(max(300, QUERIES * 10))
@pytest.mark.parametrize("seed", range(FIRST, FIRST + -(-QUERIES // OF_A_WORLD)))
def test_both_engines_give_the_same_answers(side: Side, seed: int) -> None:
    made = world(seed)
    side.enter(made)
    wrong, empty = [], 0
    for sql in queries(seed * 1_000, made, OF_A_WORLD):
        query = query_of(sql)
        answer = side.answer(query)
        empty += answer.num_rows == 0
        verdict = verify(query, lambda answer=answer: answer, made.lookup)  # type: ignore[misc]
        if not verdict.equal:
            wrong.append(f"{sql}\n{verdict.difference}")
    assert not wrong, f"{made.database.timezone}, {made.database.precision}\n" + "\n\n".join(wrong)
    assert empty < SHARE_OF_EMPTY * OF_A_WORLD
