"""Random queries over trees on Spark and on DuckDB.

HEADRACE_VERIFY_QUERIES is their number, HEADRACE_VERIFY_SEED the first seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headrace
from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from tests.verify.tree_generator import tree_queries, tree_world

QUERIES = int(os.environ.get("HEADRACE_VERIFY_QUERIES", "30"))
FIRST_SEED = int(os.environ.get("HEADRACE_VERIFY_SEED", "1"))
QUERIES_PER_WORLD = 30
MAX_REFUSED_SHARE = 0.25


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(max(300, QUERIES * 10))
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + -(-QUERIES // QUERIES_PER_WORLD)))
def test_both_engines_give_the_same_answers(tmp_path: Path, seed: int) -> None:
    wrong, refused = [], 0
    with headrace.connect(tmp_path, dialect="iotdb", clock=headrace.ManualClock(1_800_000_000_000)) as connection:
        for statement in tree_world(seed).statements:
            connection.execute(statement)
        for sql in tree_queries(seed * 1_000, QUERIES_PER_WORLD):
            try:
                verification = connection.verify(sql)
            except (NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError):
                # No device of FROM has the measurement, or a clause is not supported, by IoTDB either or by verify.
                refused += 1
                continue
            if not verification.equal:
                wrong.append(f"{sql}\n{verification.difference}")
    assert not wrong, "\n\n".join(wrong)
    assert refused < MAX_REFUSED_SHARE * QUERIES_PER_WORLD
