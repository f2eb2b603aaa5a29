"""Windows and groups do not depend on the order of rows, nor on how they are divided into batches."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from headrace.compute.columnar import OutputKernel, SegmentKernel, runs, table_plans
from headrace.compute.columnar.table_plans import merged_segments, types_of
from tests.compute.samples import METERS, meters, select, to_arrow

KEYS = 6
PLAN = select("select a, count(b), sum(b), max(b), first(b) from meters group by a")
Row = tuple[int, int | None]
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, KEYS - 1), st.none() | st.integers(-9, 9)), max_size=12), min_size=1, max_size=5
)


def expected(batches: list[list[Row]]) -> list[tuple[int | None, ...]]:
    """Return the count, sum, greatest and earliest value of each key."""
    rows = [row for batch in batches for row in batch]
    results: list[tuple[int | None, ...]] = []
    for key in sorted({key for key, _ in rows}):
        own = [x for number, x in rows if number == key and x is not None]
        results.append((key, len(own), sum(own), max(own), own[0]) if own else (key, 0, None, None, None))
    return results


@given(batches=BATCHES, waiting=st.integers(0, 8), gaps=st.integers(0, 4))
def test_groups_are_those_of_all_rows(batches: list[list[Row]], waiting: int, gaps: int) -> None:
    tables, at = [], 0
    for batch in batches:
        rows = [("d1", at + number, a, b, None, None, None, None) for number, (a, b) in enumerate(batch)]
        tables.append(to_arrow(METERS, meters(*rows)))
        at += len(batch)
    kernel = SegmentKernel.compile(PLAN, types_of(tables[0]))
    with patch.object(table_plans, "MIN_WAITING", waiting), patch.object(runs, "MAX_GAPS", gaps):
        groups = merged_segments(kernel, tables)
    outputs = {output.column: output.node for output in PLAN.outputs}
    finished = OutputKernel.compile(outputs, groups.schema).append_to(groups)
    assert list(zip(*(finished[name].to_pylist() for name in outputs), strict=True)) == expected(batches)
