"""Bound plans: names, types, time ranges, scans."""

from __future__ import annotations

import pytest

from headrace.compute import Scan, UnionPlan, explain
from headrace.compute.nodes import NOW, Column, bigint, call, columns_of
from headrace.model.time import Precision
from tests.compute.samples import T0, plan, scope, select


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("count(*)", "BIGINT"),
        ("sum(a)", "BIGINT"),
        ("sum(b)", "BIGINT"),
        ("sum(d)", "DOUBLE"),
        ("avg(a)", "DOUBLE"),
        ("max(c)", "FLOAT"),
        ("min(s)", "VARCHAR(20)"),
        ("last(ts)", "TIMESTAMP"),
        ("max(a) - min(a)", "DOUBLE"),
        ("spread(ts)", "DOUBLE"),
        ("first(e)", "BOOL"),
        ("hyperloglog(s)", "BIGINT"),
        ("cast(avg(a) as int)", "INT"),
        ("case when count(*) > 3 then 'many' else 'few' end", "VARCHAR"),
    ],
)
def test_the_type_of_an_aggregate_follows_from_its_arguments(expression: str, type_: str) -> None:
    assert str(select(f"select {expression} from meters").outputs[0].type) == type_


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("a + 1", "DOUBLE"),
        ("a & 3", "BIGINT"),
        ("-a", "DOUBLE"),
        ("abs(a)", "INT"),
        ("ceil(c)", "FLOAT"),
        ("ts + 1h", "TIMESTAMP"),
        ("1 - ts", "BIGINT"),
        ("ts + 1.5", "DOUBLE"),
        ("ts - 1n", "TIMESTAMP"),
        ("now - 1d", "TIMESTAMP"),
        ("a > 3", "BOOL"),
        ("length(s)", "BIGINT"),
        ("concat(s, 'x')", "VARCHAR"),
        ("cast(a as varchar(3))", "VARCHAR(3)"),
        ("to_iso8601(ts)", "VARCHAR"),
        ("diff(a)", "BIGINT"),
        ("diff(d)", "DOUBLE"),
    ],
)
def test_the_type_of_an_expression_follows_from_its_parts(expression: str, type_: str) -> None:
    assert str(select(f"select {expression} from meters").outputs[0].type) == type_


def test_columns_are_named_as_written_or_by_their_alias() -> None:
    found = select("select a, b x, count(*), Sum(A)+1, last_row(*) from d1 group by a, b")
    assert [output.name for output in found.outputs][:4] == ["a", "x", "count(*)", "sum(a)+1"]
    assert [output.name for output in found.outputs][4:6] == ["last_row(ts)", "last_row(a)"]


def test_a_star_is_columns_and_tags_of_a_supertable_but_only_columns_of_a_subtable() -> None:
    assert [output.name for output in select("select * from meters").outputs][-2:] == ["site", "room"]
    assert [output.name for output in select("select * from d1").outputs][-1] == "s"


@pytest.mark.parametrize(
    ("where", "first", "last"),
    [
        ("ts >= 1700000001000 and ts < 1700000002000", 1_000, 1_999),
        ("ts > '2023-11-14 22:13:21' and a > 1", 1_001, None),
        ("ts between 1700000001000 and '2023-11-14T22:13:25Z'", 1_000, 5_000),
        ("1700000001000 < ts", 1_001, None),
        ("ts >= now - 10s and ts <= now + 1s", -10_000, 1_000),
        ("ts = 1700000001000", 1_000, 1_000),
        ("ts > 1700000001000 and ts > 1700000003000", 3_001, None),
        ("ts > 1700000001000 or a > 1", None, None),
        ("_c0 <= 1700000001000", None, 1_000),
    ],
)
def test_the_time_range_is_derived_from_where(where: str, first: int | None, last: int | None) -> None:
    range_ = select(f"select a from meters where {where}").range
    assert tuple(None if end is None else end - T0 for end in range_) == (first, last)


def test_a_bound_on_time_tests_the_stored_column_so_that_files_are_pruned() -> None:
    assert select("select a from meters where ts >= 1700000000000").filter == call(
        ">=", Column("ts"), call("timestamp_millis", bigint(1_700_000_000_000))
    )


def test_a_timestamp_without_zone_is_read_in_the_zone_of_the_statement() -> None:
    berlin = select("select a from meters where ts >= '2023-11-14 23:13:20'", where=scope(timezone="Europe/Berlin"))
    assert berlin.range[0] == T0


def test_durations_and_instants_are_counted_in_ticks_of_the_database() -> None:
    where = scope(precision=Precision.NANOSECOND)
    found = select("select a from meters where ts >= '2023-11-14 22:13:20.000000001' and ts <= now + 2b", where=where)
    assert found.range == (T0 * 1_000_000 + 1, T0 * 1_000_000 + 2)


def test_the_present_is_inserted_when_a_plan_runs() -> None:
    found = select("select a from meters where ts > now - 1s")
    assert found.filter is not None
    assert NOW.name in columns_of(found.filter)
    assert found.at(T0 + 5_000).range == (T0 + 4_001, None)


def test_a_scan_reads_only_the_columns_that_are_used() -> None:
    (scan,) = select("select avg(d) from meters where s = 'x' partition by site interval(1m)").scans
    assert scan.columns == ("ts", "d", "s", "site", "tbname")
    assert scan.tags == ("site",)


def test_sub_queries_joins_and_unions_name_every_scan() -> None:
    joined = select("select x.a from (select ts, a, b from d1) x join d2 y on x.ts = y.ts where y.e")
    assert [scan.subtable for scan in joined.scans] == ["d1", "d2"]
    assert joined.scans[1].columns == ("ts", "e", "tbname")
    union = plan("select a from d1 union all select b from meters")
    assert isinstance(union, UnionPlan)
    assert str(union.outputs[0].type) == "BIGINT"
    assert all(isinstance(scan, Scan) for scan in union.scans)


def test_equal_partials_are_shared() -> None:
    found = select("select avg(a), sum(a), count(a), avg(a) + 1 from meters interval(1m)")
    assert [str(partial.update) for partial in found.partials] == ["sum(CAST(a0 AS DOUBLE))", "count(a0)", "sum(a0)"]


def test_tags_of_a_single_subtable_are_implied_keys() -> None:
    found = select("select site, count(*) from meters partition by tbname interval(1m)")
    assert [(key.name, key.implied) for key in found.keys] == [("tbname", False), ("site", True)]


def test_rows_of_one_subtable_cannot_tie() -> None:
    assert select("select first(a) from d1").groups.unique
    assert select("select first(a) from meters partition by tbname").groups.unique
    assert not select("select first(a) from meters").groups.unique
    assert not select("select first(v) from keyed").groups.unique


def test_explain_describes_a_plan_from_the_scan_outwards() -> None:
    lines = explain(select("select _wstart, avg(a) from meters where ts > 0 partition by tbname interval(1m) fill(prev) limit 3"))
    kinds = [line.split(" ")[0].rstrip(":") for line in lines]
    assert kinds == ["scan", "filter", "time", "partition", "window", "aggregate", "fill", "limit", "result"]


@pytest.mark.parametrize(
    ("keys", "follow"),
    [
        ("tbname, upper(tbname)", [False, True]),
        ("tbname n, cast(tbname as varchar(2)), length(tbname) + 1", [False, True, True]),
        ("upper(tbname)", [False]),
        ("tbname, site, upper(site)", [False, False, False]),
        ("tbname, concat(tbname, site)", [False, False]),
        ("tbname, length(tbname) + rand()", [False, False]),
    ],
)
def test_a_function_of_the_subtable_is_derived_if_the_subtable_is_a_key(keys: str, follow: list[bool]) -> None:
    assert [key.is_derived for key in select(f"select count(*) from meters partition by {keys}").keys] == follow
