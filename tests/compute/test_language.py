"""A second language is a second object: other names, rules and functions, tree tables, patterns in FROM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.compute import Language, Relation, Scan, Scope, SeriesNames, SeriesPattern, bind, evaluate, explain, language
from headrace.compute.functions.arrow import ArrowArguments, ArrowFunction, ArrowRule
from headrace.compute.functions.scalars import ScalarFunction
from headrace.compute.language import NullRules, PseudoColumns
from headrace.compute.nodes import string
from headrace.compute.terms import Term
from headrace.errors import InvalidStreamError, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.tables import Database, Name, Table, TableKind
from headrace.model.time import Precision
from headrace.model.types import BIGINT, DOUBLE, VARCHAR, TypeKind
from tests.compute.samples import METERS, T0, collect_rows, column, frame, meters, parse_query, scope, select, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TDENGINE = language("tdengine")
PLANT = Table("db", "plant", (column("time", TypeKind.TIMESTAMP), column("v", TypeKind.INT)), kind=TableKind.TREE)
YARD = Table(
    "db",
    "yard",
    (column("at", TypeKind.TIMESTAMP), column("v", TypeKind.DOUBLE), column("w", TypeKind.VARCHAR, 8)),
    kind=TableKind.TREE,
)
TREE = replace(
    TDENGINE,
    name="tree",
    functions={"mean": replace(TDENGINE.functions["avg"], name="mean"), "count": TDENGINE.functions["count"]},
    pseudo_columns=PseudoColumns(row_time=("moment",), series="device", window_start="began", window_end="ended"),
    nulls=NullRules(sorts_lowest=False),
    column_name=lambda item: item.name.upper(),
)


def tree_rows(table: Table, *rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return rows of a tree from (device, milliseconds after T0, measurements)."""
    time, *names = (each.name for each in table.columns)
    return [{"device": device, time: T0 + at} | dict(zip(names, values, strict=False)) for device, at, *values in rows]


def tree_frame(spark: SparkSession, table: Table, *rows: Sequence[Any]) -> DataFrame:
    listed = tree_rows(table, *rows)
    stored = to_arrow(table, listed).drop_columns("tbname").append_column("device", pa.array([row["device"] for row in listed]))
    return spark.createDataFrame(stored).coalesce(1)


def tree_scope(*relations: Relation) -> Scope:
    """Return a scope in which every name means all of these relations."""
    return Scope(lambda _: relations, TREE, "UTC", T0)


DATABASE = Database("db", Precision.MILLISECOND, "UTC")


def test_the_language_of_a_dialect_is_found_by_its_name() -> None:
    assert TDENGINE.name == "tdengine"
    with pytest.raises(ProgrammingError, match="unknown dialect 'klingon'"):
        language("klingon")


def test_names_functions_and_null_rules_are_those_of_the_language() -> None:
    where = tree_scope(Relation(PLANT, DATABASE))
    bound = bind(parse_query("select began, device, mean(v) from plant partition by device interval(10s)"), where)
    assert [output.name for output in bound.outputs] == ["BEGAN", "DEVICE", "MEAN(V)"]
    for sql in ("select _wstart, count(*) from plant interval(10s)", "select tbname from plant", "select avg(v) from plant"):
        with pytest.raises(NotFoundError):
            bind(parse_query(sql), where)
    with pytest.raises(ProgrammingError, match="began needs a window"):
        bind(parse_query("select began, v from plant"), where)
    (ascending,) = bind(parse_query("select v from plant order by v"), where).order.sorts
    assert not ascending.nulls_first
    tested, ours = bind(parse_query("select v > 1 from plant"), where), select("select a > 1 from meters")
    assert ("coalesce" in str(tested.outputs[0].node), "coalesce" in str(ours.outputs[0].node)) == (False, True)


@pytest.mark.spark
@pytest.mark.parametrize("window", ["interval(10s)", "session(time, 4s)", "count_window(2)", "state_window(v)"])
def test_windows_are_grouped_by_the_series_key_of_the_table(small: SparkSession, window: str) -> None:
    rows = tree_frame(small, PLANT, ("a", 0, 1), ("b", 0, 5), ("a", 1000, 1), ("b", 1000, 5))
    found = bind(
        parse_query(f"select device, count(*), mean(v) from plant partition by device {window}"),
        tree_scope(Relation(PLANT, DATABASE)),
    )
    assert collect_rows(evaluate(found, rows)) == [("a", 2, 1.0), ("b", 2, 5.0)]


@pytest.mark.spark
def test_a_pattern_reads_series_of_several_tables_as_one(small: SparkSession) -> None:
    where = tree_scope(
        Relation(PLANT, DATABASE, SeriesPattern("root[.]x[.].*")), Relation(YARD, DATABASE, SeriesNames(("root.y",)))
    )
    frames = {
        "plant": tree_frame(small, PLANT, ("root.x.a", 0, 1), ("root.x.b", 1000, 3), ("root.other", 0, 99)),
        "yard": tree_frame(small, YARD, ("root.y", 2000, 2.5, "w"), ("root.z", 0, 99.0, "z")),
    }

    def read(scan: Scan) -> DataFrame:
        return frames[scan.table.name]

    def answer(sql: str) -> list[tuple[Any, ...]]:
        return collect_rows(evaluate(bind(parse_query(sql), where), read))

    assert answer("select moment, device, v, w from root order by moment") == [
        (0, "root.x.a", 1.0, None),
        (1000, "root.x.b", 3.0, None),
        (2000, "root.y", 2.5, "w"),
    ]
    assert answer("select device, count(*), mean(v) from root partition by device") == [
        ("root.x.a", 1, 1.0),
        ("root.x.b", 1, 3.0),
        ("root.y", 1, 2.5),
    ]
    lines = explain(bind(parse_query("select v from root where moment >= 0"), where))
    assert lines[:3] == [
        "union of 2 tables",
        "  scan db.plant, series (device RLIKE '^(?:root[.]x[.].*)$'): time, v, device",
        "  scan db.yard, subtable root.y: at, v, w, device",
    ]
    assert lines[3].endswith(">= timestamp_millis(0L))")
    windows = "select began, count(*) from root where moment >= '2023-11-14 22:13:21' interval(1s) order by began"
    assert answer(windows) == [(1000, 1), (2000, 1)]


def test_tables_that_cannot_be_read_as_one_are_refused() -> None:
    nanoseconds = Database("fine", Precision.NANOSECOND, "UTC")
    with pytest.raises(NotSupportedError, match="different precisions"):
        bind(parse_query("select v from root"), tree_scope(Relation(PLANT, DATABASE), Relation(YARD, nanoseconds)))
    with pytest.raises(NotSupportedError, match="root refers to 2 tables"):
        tree_scope(Relation(PLANT, DATABASE), Relation(YARD, DATABASE)).relation(Name(None, "root"))


@pytest.mark.spark
def test_a_subtable_is_read_alone_also_as_a_side_of_a_join(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(("d1", 0, 1), ("d2", 0, 2)))
    sql = "select l.a, r.a from d1 l join d2 r on l.ts = r.ts"
    assert collect_rows(evaluate(bind(parse_query(sql), scope()), rows)) == [(1, 2)]
    assert collect_rows(evaluate(bind(parse_query("select a from (select * from d2)"), scope()), rows)) == [(2,)]


@pytest.mark.parametrize(
    ("inner", "is_series"),
    [
        ("select ts, tbname as name, a from meters", True),
        ("select _wstart, tbname as name, max(a) a from meters partition by tbname interval(1s)", True),
        ("select ts, s as name, a from meters", False),
        ("select ts, upper(tbname) as name, a from meters", False),
    ],
)
def test_a_series_key_is_identified_by_its_role_not_its_name(inner: str, is_series: bool) -> None:
    found = select(f"select name, last(a) from ({inner}) partition by name")
    assert (found.grouped_series is not None, found.groups.unique) == (is_series, is_series)
    as_before = select(f"select tbname, last(a) from ({inner.replace('as name', 'as tbname')}) partition by tbname")
    assert (as_before.grouped_series is not None, as_before.groups.unique) == (is_series, is_series)


# Functions over groups


def spans(rows: pa.Table, groups: int) -> pa.Array:
    """Return the time from the first row of each group to the last."""
    times = [rows["time"].filter(pc.equal(rows["group"], group)).to_pylist() for group in range(groups)]
    return pa.array([own[-1] - own[0] for own in times])


def weighted(arguments: ArrowArguments) -> ArrowRule:
    """`weighted(x, y, factor)`: the factor times the sum of the products."""
    (factor,) = arguments.constants
    if not isinstance(factor, int):
        raise TypeMismatchError("argument 3 of weighted must be a constant number")

    def values(rows: pa.Table, groups: int) -> pa.Array:
        totals = [0.0] * groups
        for group, x, y in zip(*(rows[name].to_pylist() for name in ("group", "x0", "x1")), strict=True):
            totals[group] += 0 if x is None or y is None else factor * x * y
        return pa.array(totals, pa.float64())

    return ArrowRule(DOUBLE, values)


def extended_language() -> Language:
    # Lambdas are sent to Spark's tasks by value: the tasks cannot import this module.
    covered = lambda rows, groups: spans(rows, groups)  # noqa: E731
    return TDENGINE.with_functions(
        ArrowFunction("covered", lambda _: ArrowRule(BIGINT, covered), "time from the first row to the last"),
        ArrowFunction("weighted", weighted, "sum of products", min_arguments=2, max_arguments=2),
        ScalarFunction("greeting", 0, 0, lambda _: Term(string("hello"), VARCHAR), "a greeting"),
    )


def run_extended(sql: str, rows: DataFrame) -> list[tuple[Any, ...]]:
    where = replace(scope(), language=extended_language())
    return collect_rows(evaluate(bind(parse_query(sql), where), rows))


READINGS = (("d1", 5000, 1, 2), ("d1", 0, 3, 4), ("d1", 9000, None, 1), ("d2", 1000, 5, 6), ("d1", 20_000, 2, 2))


CLAUSES = (
    "",
    "partition by tbname",
    "partition by tbname interval(10s)",
    "partition by tbname interval(20s) sliding(10s)",
    "partition by tbname session(ts, 6s)",
    "partition by tbname state_window(a)",
    "partition by tbname event_window start with a > 1 end with a < 3",
    "partition by tbname count_window(2)",
)


@pytest.mark.spark
@pytest.mark.parametrize("clauses", CLAUSES)
def test_an_arrow_function_gives_a_value_of_each_group(small: SparkSession, clauses: str) -> None:
    rows = frame(small, METERS, meters(*READINGS))
    theirs, ours = "covered(ts), weighted(a, b, 10)", "timediff(last(ts), first(ts)), 10 * sum(a * b)"
    found = run_extended(f"select {theirs}, {ours} from meters {clauses}", rows)
    assert found
    assert [row[:2] for row in found] == [(span, product or 0.0) for *_, span, product in found]


@pytest.mark.spark
def test_functions_of_an_extended_language_stand_in_having_and_without_arguments(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(*READINGS))
    assert run_extended("select count(*) from meters having covered(ts) > 30000", rows) == []
    assert run_extended("select greeting(), a from d2", rows) == [("hello", 5)]


def test_an_arrow_function_checks_its_arguments_and_is_refused_in_streams() -> None:
    where = replace(scope(), language=extended_language())
    with pytest.raises(TypeMismatchError, match="weighted takes 2 arguments, not 1"):
        bind(parse_query("select weighted(a, 3) from meters"), where)
    with pytest.raises(InvalidStreamError, match="covered needs all rows of a window") as refused:
        bind(parse_query("select _wstart, covered(ts) from meters interval(10s)"), where, stream=True)
    assert refused.value.span is not None
    with pytest.raises(ProgrammingError, match="function sum already exists"):
        TDENGINE.with_functions(replace(TDENGINE.functions["count"], name="sum"))
