"""Lineage of the columns of plans: which stored columns each output is made of, and how."""

from __future__ import annotations

import pytest

from headrace.compute.lineage import plan_lineage
from headrace.model.lineage import Inputs
from tests.compute.samples import plan, select


def written(inputs: Inputs) -> str:
    """Write inputs as `column:WAY/WAY`, in order."""
    return " ".join(f"{one.column}:{'/'.join(sorted(ways))}" for one, ways in sorted(inputs.items()))


def outputs(sql: str) -> list[str]:
    bound = select(sql)
    lineage = plan_lineage(bound)
    return [written(lineage.outputs[output.column]) for output in bound.outputs]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", "a:IDENTITY"),
        ("ts", "ts:IDENTITY"),
        ("a + 1", "a:TRANSFORMATION"),
        ("cast(a as double)", "a:TRANSFORMATION"),
        ("a + b", "a:TRANSFORMATION b:TRANSFORMATION"),
        ("case when a > 1 then b else 0 end", "a:CONDITIONAL b:TRANSFORMATION"),
        ("case when a > 1 then a else 0 end", "a:TRANSFORMATION"),
        ("diff(a)", "a:TRANSFORMATION"),
        ("csum(b)", "b:TRANSFORMATION"),
        ("derivative(a, 1s, 0)", "a:TRANSFORMATION ts:TRANSFORMATION"),
        ("now", ""),
        ("1 + 2", ""),
    ],
)
def test_columns_of_rows(expression: str, expected: str) -> None:
    assert outputs(f"select {expression} from meters partition by tbname") == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("_wstart", "ts:TRANSFORMATION"),
        ("count(*)", ""),
        ("count(a)", "a:AGGREGATION"),
        ("avg(a)", "a:AGGREGATION"),
        ("max(a) + min(b)", "a:AGGREGATION b:AGGREGATION"),
        ("last(a)", "a:AGGREGATION ts:SORT"),
        ("last(ts)", "ts:AGGREGATION"),
        ("twa(b)", "b:AGGREGATION ts:AGGREGATION"),
        ("stddev(a)", "a:AGGREGATION"),
        ("percentile(a, 50)", "a:AGGREGATION"),
        ("site", "site:IDENTITY"),
        ("tbname", "tbname:IDENTITY"),
        ("sum(a + b)", "a:AGGREGATION b:AGGREGATION"),
    ],
)
def test_columns_of_windows(expression: str, expected: str) -> None:
    assert outputs(f"select {expression} from meters partition by tbname interval(1m)") == [expected]


def test_a_plain_column_is_of_the_row_that_a_selection_picks() -> None:
    assert outputs("select max(a), b from meters") == ["a:AGGREGATION", "a:CONDITIONAL b:AGGREGATION tbname:SORT ts:SORT"]


def test_interpolated_points_are_made_of_rows() -> None:
    sql = "select _irowts, interp(a) from meters partition by tbname range(0, 5000) every(1s) fill(linear)"
    assert outputs(sql) == ["ts:TRANSFORMATION", "a:TRANSFORMATION"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("where b > 0", "b:FILTER"),
        ("where ts > 5 interval(1m)", "ts:FILTER/WINDOW"),
        ("group by site", "site:GROUP_BY"),
        ("group by site having min(b) > 1", "b:FILTER site:GROUP_BY"),
        ("partition by tbname session(ts, 1m)", "tbname:GROUP_BY ts:WINDOW"),
        ("partition by tbname state_window(a)", "a:WINDOW tbname:GROUP_BY ts:WINDOW"),
        ("partition by tbname event_window start with a > 1 end with b < 3", "a:WINDOW b:WINDOW tbname:GROUP_BY ts:WINDOW"),
        ("group by site order by max(b) limit 3", "b:SORT site:GROUP_BY"),
    ],
)
def test_what_decides_about_all_columns(rest: str, expected: str) -> None:
    assert written(plan_lineage(select(f"select count(a) from meters {rest}")).indirect) == expected


def test_lineage_goes_through_sub_queries() -> None:
    inner = "select site k, max(a) m from meters where b > 0 group by site"
    bound = select(f"select m + 1, k from ({inner}) where m > 2")
    lineage = plan_lineage(bound)
    assert [written(lineage.outputs[one.column]) for one in bound.outputs] == ["a:AGGREGATION", "site:IDENTITY"]
    assert written(lineage.indirect) == "a:FILTER b:FILTER site:GROUP_BY"


def test_lineage_goes_through_joins_and_unions() -> None:
    join = select("select x.a, y.b from meters x join meters y on x.ts = y.ts and x.site = y.site")
    lineage = plan_lineage(join)
    assert [written(lineage.outputs[one.column]) for one in join.outputs] == ["a:IDENTITY", "b:IDENTITY"]
    assert written(lineage.indirect) == "site:JOIN ts:JOIN"
    union = plan("select a from meters union all select b from meters where a > 0")
    assert written(plan_lineage(union).outputs["o0"]) == "a:IDENTITY b:IDENTITY"
    assert written(plan_lineage(union).indirect) == "a:FILTER"
