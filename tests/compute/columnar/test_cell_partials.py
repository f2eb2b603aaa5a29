"""Partials of cells do not depend on the order of rows, nor on how they are divided into batches."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.compute.columnar import partials
from headrace.compute.columnar.partials import CellPartials, CellRules
from headrace.compute.nodes import NULL, Column, bigint, call, if_

SIZE = 6
X, T = Column("x"), Column("t")
ROWS = {"n": if_(X.is_null(), bigint(0), bigint(1)), "s": X, "h": X, "k": if_(X.is_null(), NULL, T), "v": X}
MERGES = {
    "n": call("sum", Column("n")),
    "s": call("sum", Column("s")),
    "h": call("max", Column("h")),
    "k": call("min", Column("k")),
    "v": call("min_by", Column("v"), Column("k")),
}
RULES = CellRules.compile(ROWS, MERGES, {"x": pa.int64(), "t": pa.int64()})
Row = tuple[int, int | None]
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, SIZE - 1), st.none() | st.integers(-9, 9)), max_size=12), max_size=5)


def expected(batches: list[list[Row]]) -> list[tuple[int | None, ...]]:
    """Return the count, sum, greatest and earliest value of each cell, and the instant of the latter."""
    rows = list(enumerate(row for batch in batches for row in batch))
    results: list[tuple[int | None, ...]] = []
    for cell in range(SIZE):
        own = [(at, x) for at, (number, x) in rows if number == cell and x is not None]
        count = len(own) if any(number == cell for _, (number, _) in rows) else None
        values = [x for _, x in own]
        results.append((count, sum(values), max(values), *own[0]) if own else (count, None, None, None, None))
    return results


@given(batches=BATCHES, waiting=st.integers(0, 8), gaps=st.integers(0, 4))
def test_partials_are_those_of_all_rows(batches: list[list[Row]], waiting: int, gaps: int) -> None:
    merged, at = CellPartials(RULES), 0
    with patch.object(partials, "MIN_WAITING", waiting), patch.object(partials, "MAX_GAPS", gaps):
        for batch in batches:
            columns = {"x": pa.array([x for _, x in batch], pa.int64()), "t": pa.array(range(at, at + len(batch)), pa.int64())}
            merged.add(np.array([cell for cell, _ in batch], np.int64), columns)
            at += len(batch)
        results = merged.result(SIZE)
    assert list(zip(*(results[name].to_pylist() for name in ("n", "s", "h", "k", "v")), strict=True)) == expected(batches)
