"""`ins_lineage`: the lineage of jobs of all kinds and of virtual tables, as far as a user may know of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import headrace
from headrace.settings import Settings

TABLES = (
    "create database d",
    "create stable d.readings (ts timestamp, a int, b double) tags (place varchar(20))",
    "create table d.r1 using d.readings tags ('north')",
    "create vtable d.v (ts timestamp, x double from d.r1.b)",
    "create stream d.s into d.out1 (t, most) tags (place varchar(20)) as "
    "select _wstart, max(a) from d.readings where b > 0 partition by place interval(1m)",
    "create stream d.sv into d.out2 (t, x) as select _wstart, avg(x) from d.v interval(1m)",
)
TREE = (
    "create database root.plant",
    "create timeseries root.plant.line1.speed with datatype=DOUBLE",
    "create timeseries root.plant.line2.speed with datatype=DOUBLE",
    "create cq means begin select avg(speed) into root.plant.means(speed) from root.plant.line1 where speed > 0 group by (1m) end",
    "create cq both begin select max_value(speed) into root.copies.::(speed) from root.plant.line1, root.plant.line2 "
    "group by (1m) align by device end",
    "create cq total begin select count(speed) into root.plant.total(n) from root.plant.* group by (1m), level = 1 end",
    "create cq tables begin select avg(a) into root.plant.tables(a) from root.d.readings.r1 group by (1m) end",
    "create pipe copy with source ('source'='iotdb-source', 'path'='root.plant.**') "
    "with sink ('sink'='delta-sink', 'uri'='/data/copy')",
    "create pipe counts with source ('source'='table-source', 'database'='d', 'table'='readings') with processor "
    "('processor'='aggregate-processor', 'operators'='avg') with sink ('sink'='do-nothing-sink')",
)
Row = tuple[str, str, str, str]
QUERY = (
    "select target_table, target_column, source_table, source_column, transformation from information_schema.ins_lineage "
    "where job_name = '{}' and kind = '{}'"
)


@pytest.fixture
def tables(settings: Settings) -> Iterator[headrace.Connection]:
    with ExitStack() as stack:
        root = stack.enter_context(headrace.connect(settings=settings))
        tree = stack.enter_context(headrace.connect(settings=settings, dialect="iotdb"))
        for sql in TABLES:
            root.execute(sql)
        for sql in TREE:
            tree.execute(sql)
        yield root


def lineage(connection: headrace.Connection, name: str, kind: str) -> set[str]:
    """Return rows as `table.column <- table.column WAY`."""
    rows = connection.execute(QUERY.format(name, kind)).fetchall()
    return {f"{target}.{column or '*'} <- {source}.{field} {way}" for target, column, source, field, way in rows}


def test_each_kind_of_job_has_a_lineage(tables: headrace.Connection) -> None:
    assert lineage(tables, "s", "stream") == {
        "out1.t <- readings.ts TRANSFORMATION",
        "out1.most <- readings.a AGGREGATION",
        "out1.place <- readings.place IDENTITY",
        "out1.tbname <- readings.place TRANSFORMATION",
        "out1.* <- readings.b FILTER",
        "out1.* <- readings.place GROUP_BY",
        "out1.* <- readings.ts WINDOW",
    }
    assert lineage(tables, "means", "continuous query") == {
        "root.plant.means.speed <- root.plant.line1.speed AGGREGATION",
        "root.plant.means.time <- root.plant.line1.time TRANSFORMATION",
        "root.plant.means.* <- root.plant.line1.speed FILTER",
        "root.plant.means.* <- root.plant.line1.time FILTER",
        "root.plant.means.* <- root.plant.line1.time WINDOW",
    }
    assert lineage(tables, "copy", "pipe") == {
        f"delta-sink /data/copy.{name} <- root.plant.**.{name} IDENTITY" for name in ("time", "device", "speed")
    }
    assert lineage(tables, "counts", "pipe") == {
        "do-nothing-sink.time <- readings.ts TRANSFORMATION",
        "do-nothing-sink.device <- readings.tbname TRANSFORMATION",
        "do-nothing-sink.avg <- readings.a AGGREGATION",
        "do-nothing-sink.avg <- readings.b AGGREGATION",
        "do-nothing-sink.* <- readings.tbname GROUP_BY",
        "do-nothing-sink.* <- readings.ts WINDOW",
    }


def test_virtual_tables_are_followed_to_stored_columns(tables: headrace.Connection) -> None:
    assert lineage(tables, "v", "virtual table") == {"v.x <- readings.b IDENTITY", "v.ts <- readings.ts IDENTITY"}
    assert "out2.x <- readings.b AGGREGATION" in lineage(tables, "sv", "stream")


def test_the_paths_of_a_query_are_resolved(tables: headrace.Connection) -> None:
    both = lineage(tables, "both", "continuous query")
    assert {row for row in both if "AGGREGATION" in row} == {
        f"root.copies.line{number}.speed <- root.plant.line{number}.speed AGGREGATION" for number in (1, 2)
    }
    assert "root.plant.total.n <- root.plant.**.speed AGGREGATION" in lineage(tables, "total", "continuous query")
    assert "root.plant.tables.a <- readings.a AGGREGATION" in lineage(tables, "tables", "continuous query")


def test_a_user_sees_columns_of_what_they_may_read(tables: headrace.Connection, settings: Settings) -> None:
    for sql in ("create user vera pass 'secret12'", "grant read on d.out1 to vera", "grant write on d.out1 to vera"):
        tables.execute(sql)
    with headrace.connect(settings=settings, dialect="iotdb") as tree:
        tree.execute("grant USE_CQ on root.** to user vera")
        tree.execute("grant READ on root.plant.line1.** to user vera")
        tree.execute("grant READ on root.plant.means.** to user vera")
    with headrace.connect(settings=settings, user="vera", password="secret12") as vera:
        rows = vera.execute("select distinct job_name, source_table from information_schema.ins_lineage").fetchall()
        assert sorted(rows) == [("means", "root.plant.line1")]
        tables.execute("grant read on d.readings to vera")
        assert lineage(vera, "s", "stream") == lineage(tables, "s", "stream")
        assert lineage(vera, "v", "virtual table") == set()


def test_a_job_that_cannot_be_planned_has_no_lineage(tables: headrace.Connection, settings: Settings) -> None:
    with headrace.connect(settings=settings, dialect="iotdb") as tree:
        tree.execute("create timeseries root.plant.means.speed with datatype=BOOLEAN")
    assert lineage(tables, "means", "continuous query") == set()
    assert lineage(tables, "s", "stream") != set()
