"""Random queries with Arrow in this process and on DuckDB.

HEADRACE_VERIFY_QUERIES is their number, HEADRACE_VERIFY_SEED the first seed.
"""

from __future__ import annotations

import os

import pytest

from headrace.compute.columnar import UnsupportedError
from headrace.verify import verify
from tests.verify.generator import queries
from tests.verify.near_side import NearSide
from tests.verify.tables import parse_query
from tests.verify.worlds import world

QUERIES = int(os.environ.get("HEADRACE_VERIFY_QUERIES", "150"))
FIRST_SEED = int(os.environ.get("HEADRACE_VERIFY_SEED", "1"))
QUERIES_PER_WORLD = 25
MAX_REFUSED_SHARE = 0.4


@pytest.mark.timeout(max(300, QUERIES * 10))
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + -(-QUERIES // QUERIES_PER_WORLD)))
def test_a_near_answer_is_that_of_duckdb(seed: int) -> None:
    tables = world(seed)
    side, wrong, refused = NearSide(tables), [], 0
    for sql in queries(seed * 1_000, tables, QUERIES_PER_WORLD):
        query = parse_query(sql)
        try:
            answer = side.answer(query)
        except UnsupportedError:
            refused += 1
            continue
        verdict = verify(query, lambda answer=answer: answer, tables.lookup)  # type: ignore[misc]
        if not verdict.equal:
            wrong.append(f"{sql}\n{verdict.difference}")
    assert not wrong, f"{tables.database.timezone}, {tables.database.precision}\n" + "\n\n".join(wrong)
    assert refused < MAX_REFUSED_SHARE * QUERIES_PER_WORLD
