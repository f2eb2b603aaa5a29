"""Rows of targets carry their tags for readers that know Delta tables only, which are no concern of our own readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

import headrace
from headrace.storage.delta.handles import rows_uri
from headrace.streams.sinks import hidden_columns
from headrace.streams.timeline import TimelineChoice, read_timeline
from tests.service.conftest import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

MINUTE = 60_000
WINDOWS = "select _wstart ws, sum(v) total from m partition by site, floor"
TAGGED = "o tags (site varchar(10), floor int)"
NORTH_SOUTH = [("north", 1, 3), ("south", 2, 4)]

Row = tuple[Any, ...]


@pytest.fixture
def meters(connection: headrace.Connection) -> headrace.Connection:
    connection.execute("create stable m (ts timestamp, v int) tags (site varchar(10), floor int)")
    connection.execute("create table a using m tags ('north', 1) b using m tags ('north', 1) c using m tags ('south', 2)")
    return connection


def insert(connection: headrace.Connection, *rows: tuple[str, int, int]) -> None:
    """Write rows: subtable, minutes after the start, and value."""
    values = " ".join(f"{name} values ({START + minute * MINUTE}, {value})" for name, minute, value in rows)
    connection.execute(f"insert into {values}")
    connection.settle()


def create(connection: headrace.Connection, rest: str = "interval(1m)", options: str = "", target: str = TAGGED) -> None:
    connection.execute(f"create stream s trigger at_once ignore update 0 {options} into {target} as {WINDOWS} {rest}")


def delta(connection: headrace.Connection, name: str = "o") -> DeltaTable:
    context = connection.session.context
    return DeltaTable(rows_uri(context.tables.uri, context.catalog.tables.get("d", name)))


def seen(connection: headrace.Connection, columns: str = "site, floor, total") -> list[Row]:
    """Return what another reader sees in the rows of the target."""
    rows = delta(connection).to_pyarrow_table().select(columns.split(", "))
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


def joined(connection: headrace.Connection, columns: str = "site, floor, total") -> list[Row]:
    return sorted(connection.execute(f"select {columns} from o").fetchall(), key=str)


def by_polars(table: DeltaTable) -> list[Row]:
    return pl.DataFrame(table.to_pyarrow_table()).select("site", "floor", "total").sort("site").rows()


def by_duckdb(table: DeltaTable) -> list[Row]:
    rows = table.to_pyarrow_table()
    with duckdb.connect() as database:
        database.register("o", rows)
        return database.execute("select site, floor, total from o order by site").fetchall()


def by_pandas(table: DeltaTable) -> list[Row]:
    frame = table.to_pandas()[["site", "floor", "total"]].sort_values("site")
    return list(frame.itertuples(index=False, name=None))


@pytest.mark.parametrize("reader", [by_polars, by_duckdb, by_pandas])
def test_other_readers_see_the_tags(meters: headrace.Connection, reader: Callable[[DeltaTable], list[Row]]) -> None:
    create(meters)
    insert(meters, ("a", 0, 1), ("b", 0, 2), ("c", 0, 4))
    assert reader(delta(meters)) == NORTH_SOUTH
    assert joined(meters) == NORTH_SOUTH
    assert [field.name for field in delta(meters).schema().fields] == ["ws", "total", "site", "floor", "tbname"]


@pytest.mark.spark
@pytest.mark.parametrize("changed", [{}, {"driver_rows": 1, "batch_rows": 1}, {"kernels": "never", "driver_rows": 1}], ids=str)
@pytest.mark.parametrize("history", [0, 1])
def test_results_of_all_ways_have_the_tags(
    meters: headrace.Connection, spark: SparkSession, changed: dict[str, Any], history: int
) -> None:
    rows = ("a", 0, 1), ("b", 0, 2), ("c", 0, 4)
    if history:
        insert(meters, *rows)
    create(meters, options=f"fill_history {history}")
    if not history:
        insert_only = " ".join(f"{name} values ({START + minute * MINUTE}, {value})" for name, minute, value in rows)
        meters.execute(f"insert into {insert_only}")
    settings = meters.session.context.settings.replace(changed)
    with headrace.connect(settings=settings, clock=headrace.ManualClock(START)) as other:
        other.execute("use d")
        other.settle()
        assert other.verify(stream="s").equal
        frame = spark.read.format("delta").load(delta(meters).table_uri)
        assert [tuple(row) for row in frame.select("site", "floor", "total").orderBy("site").collect()] == NORTH_SOUTH


def test_rows_that_move_have_the_tags_of_their_new_group(meters: headrace.Connection) -> None:
    create(meters)
    insert(meters, ("a", 0, 1), ("b", 0, 2), ("c", 0, 4))
    meters.execute("alter table b set tag site = 'south', floor = 2")
    meters.settle()
    assert seen(meters) == joined(meters) == [("north", 1, 1), ("south", 2, 6)]


def test_a_tag_of_a_subtable_that_changes_is_that_of_its_rows(meters: headrace.Connection) -> None:
    create(meters, target="o tags (p varchar(40), site varchar(10))", rest=", tbname p interval(1m)")
    insert(meters, ("a", 0, 1), ("c", 0, 4))
    meters.execute("alter table a set tag site = 'west'")
    meters.settle()
    insert(meters, ("a", 1, 8))
    assert seen(meters, "p, site, total") == [("a", "west", 1), ("a", "west", 8), ("c", "south", 4)]


def test_rows_keep_the_tags_under_which_they_were_counted(meters: headrace.Connection) -> None:
    meters.execute(f"create stream s trigger at_once into {TAGGED} as {WINDOWS} interval(1m)")
    insert(meters, ("a", 0, 1))
    meters.execute("alter table a set tag site = 'west'")
    insert(meters, ("a", 1, 8))
    assert seen(meters) == joined(meters) == [("north", 1, 1), ("west", 1, 8)]


def test_a_tag_that_is_set_in_the_target_is_not_that_of_rows(meters: headrace.Connection) -> None:
    create(meters)
    insert(meters, ("c", 0, 4))
    ((name,),) = meters.execute("select distinct tbname from o").fetchall()
    meters.execute(f"alter table {name} set tag floor = 9")
    insert(meters, ("c", 1, 5))
    assert seen(meters) == [("south", 2, 4), ("south", 2, 5)]


def test_filled_rows_have_the_tags(meters: headrace.Connection) -> None:
    create(meters, "interval(1m) fill(value, 0)")
    insert(meters, ("a", 0, 1), ("a", 2, 2), ("c", 0, 4))
    assert seen(meters) == joined(meters) == [("north", 1, 0), ("north", 1, 1), ("north", 1, 2), ("south", 2, 4)]


def test_streams_and_queries_over_a_target_join_its_tags(meters: headrace.Connection) -> None:
    create(meters)
    meters.execute(
        "create stream t trigger at_once ignore update 0 into u tags (site varchar(10)) as "
        "select _wstart ws, sum(total) total from o partition by site interval(1h)"
    )
    insert(meters, ("a", 0, 1), ("b", 1, 2), ("c", 0, 4))
    insert(meters, ("a", 0, 8))
    assert meters.execute("select site, total from u order by site").fetchall() == [("north", 10), ("south", 4)]
    assert meters.execute("select * from o order by total limit 1").fetchall()[0][1:] == (2, "north", 1)
    assert [row[0] for row in meters.execute("describe o").fetchall()] == ["ws", "total", "site", "floor"]
    assert meters.verify(stream="t").equal


def test_files_that_are_compacted_keep_the_tags(meters: headrace.Connection) -> None:
    create(meters)
    for minute in range(4):
        insert(meters, ("a", minute, minute))
    context = meters.session.context
    assert context.tables.maintenance.compact(context.catalog.tables.get("d", "o")) > 1
    assert seen(meters) == joined(meters) == [("north", 1, minute) for minute in range(4)]


def test_an_existing_target_gets_the_columns_with_its_stream(meters: headrace.Connection) -> None:
    meters.execute("create stable o (ws timestamp, total bigint) tags (site varchar(10), floor int)")
    meters.execute(f"insert into x using o tags ('east', 5) values ({START - MINUTE}, 7)")
    create(meters, target="o")
    insert(meters, ("c", 0, 4))
    meters.execute(f"insert into x values ({START - 2 * MINUTE}, 6)")
    assert seen(meters) == [("south", 2, 4), (None, None, 6), (None, None, 7)]
    assert joined(meters) == [("east", 5, 6), ("east", 5, 7), ("south", 2, 4)]


def test_streams_without_tags_add_no_columns(meters: headrace.Connection) -> None:
    meters.execute("create stream s into o as select _wstart ws, sum(v) total from m interval(1m)")
    names = [column.name for column in delta(meters).schema().fields]
    meters.execute("drop stream s")
    meters.execute("create stream s into o as select _wstart ws, sum(v) total from m interval(1m)")
    assert [column.name for column in delta(meters).schema().fields] == names


def test_a_target_without_the_columns_stays_as_it_is(meters: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(hidden_columns, "tag_columns", lambda _: ())
        create(meters)
        insert(meters, ("a", 0, 1), ("c", 0, 4))
    with headrace.connect(settings=meters.session.context.settings, clock=headrace.ManualClock(START)) as later:
        later.execute("use d")
        insert(later, ("a", 1, 2))
    assert "site" not in [field.name for field in delta(meters).schema().fields]
    assert joined(meters) == [("north", 1, 1), ("north", 1, 2), ("south", 2, 4)]
    meters.execute("reset stream s")
    meters.settle()
    assert seen(meters) == joined(meters) == [("north", 1, 1), ("north", 1, 2), ("south", 2, 4)]


def test_tags_that_are_dropped_and_renamed_leave_no_values_behind(meters: headrace.Connection) -> None:
    create(meters)
    insert(meters, ("a", 0, 1))
    meters.execute("drop stream s")
    meters.execute("alter stable o drop tag floor")
    meters.execute("alter stable o rename tag site place")
    meters.execute("alter stable o add tag floor int")
    assert joined(meters, "place, floor, total") == [("north", None, 1)]
    with pytest.raises(headrace.ExistsError, match="o had a column site that was dropped"):
        meters.execute("alter stable o add column site varchar(10)")
    meters.execute(
        "create stream s trigger at_once into o tags (place, floor) as select _wstart ws, sum(v) total from m "
        "partition by site place, floor interval(1m)"
    )
    insert(meters, ("c", 1, 4))
    assert joined(meters, "place, floor, total") == [("north", None, 1), ("south", 2, 4)]
    assert seen(meters, "place, total") == [("south", 4), (None, 1)]


def test_a_tag_that_differs_from_a_column_in_case_only_is_not_in_the_rows(meters: headrace.Connection) -> None:
    meters.execute(
        "create stream s trigger at_once into o tags (`Total` int) as "
        "select _wstart ws, sum(v) total from m partition by floor `Total` interval(1m)"
    )
    insert(meters, ("a", 0, 1), ("c", 0, 4))
    assert [field.name for field in delta(meters).schema().fields] == ["ws", "total", "tbname"]
    assert joined(meters, "`Total`, total") == [(1, 1), (2, 4)]


def test_parts_of_a_stream_write_the_tags(meters: headrace.Connection) -> None:
    create(meters, options="partitions 2", target="o tags (p varchar(40), site varchar(10))", rest=", tbname p interval(1m)")
    insert(meters, ("a", 0, 1), ("b", 0, 2), ("c", 0, 4))
    assert seen(meters, "p, site, total") == [("a", "north", 1), ("b", "north", 2), ("c", "south", 4)]


def test_rows_that_are_computed_again_keep_their_tags(meters: headrace.Connection) -> None:
    create(meters)
    insert(meters, ("a", 0, 1), ("b", 0, 2), ("c", 0, 4), ("c", 1, 5))
    meters.execute(f"delete from a where ts = {START}")
    meters.execute(f"delete from c where ts = {START}")
    meters.settle()
    assert seen(meters) == joined(meters) == [("north", 1, 2), ("south", 2, 5)]
    meters.execute("drop table b")
    insert(meters, ("a", 0, 3))
    assert seen(meters) == joined(meters)


def test_an_earlier_version_writes_beside_a_later_one(meters: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier one knows nothing of the columns, whose values are NULL then."""
    create(meters)
    insert(meters, ("a", 0, 1))
    with monkeypatch.context() as before:
        before.setattr(hidden_columns, "tag_columns", lambda _: ())
        with headrace.connect(settings=meters.session.context.settings, clock=headrace.ManualClock(START)) as earlier:
            earlier.execute("use d")
            insert(earlier, ("a", 1, 2), ("c", 0, 4))
    insert(meters, ("c", 0, 5))
    assert seen(meters) == [("north", 1, 1), ("south", 2, 5), (None, None, 2)]
    assert joined(meters) == [("north", 1, 1), ("north", 1, 2), ("south", 2, 5)]
    meters.execute("reset stream s")
    meters.settle()
    assert seen(meters) == joined(meters)


def test_names_that_need_quotes(meters: headrace.Connection) -> None:
    meters.execute("create stable `Mäß` (ts timestamp, `Wert` int) tags (`Straße` nchar(10), `select` binary(10))")
    meters.execute("create table `Zähler` using `Mäß` tags ('Höhe', 'ß')")
    meters.execute(
        "create stream s trigger at_once into `Süd` tags (`Straße` nchar(10), `select` binary(10)) as "
        "select _wstart `Anfang`, sum(`Wert`) `Größe` from `Mäß` partition by `Straße`, `select` interval(1m)"
    )
    insert(meters, ("`Zähler`", 0, 7))
    (row,) = delta(meters, "Süd").to_pyarrow_table().select(["Straße", "select", "Größe"]).to_pylist()
    assert tuple(row.values()) == ("Höhe", "ß", 7)


@pytest.mark.spark
@pytest.mark.parametrize("changed", [{}, {"kernels": "never", "driver_rows": 1}], ids=str)
def test_tags_of_all_types_are_those_of_the_table_of_tags(meters: headrace.Connection, changed: dict[str, Any]) -> None:
    types = {
        "b": "bool",
        "i": "tinyint",
        "u": "bigint unsigned",
        "f": "float",
        "d": "double",
        "t": "timestamp",
        "n": "nchar(9)",
        "x": "varbinary(9)",
    }
    values = f"true, -1, 18446744073709551615, 0.1, 0.2, {START}, 'ä', '\\x61'"
    declared = ", ".join(f"{name} {type_}" for name, type_ in types.items())
    meters.execute(f"create stable w (ts timestamp, v int) tags ({declared})")
    meters.execute(f"create table w1 using w tags ({values}) w2 using w tags ({', '.join(['null'] * len(types))})")
    meters.execute("create database far precision 'us'")
    meters.execute(
        f"create stream s trigger at_once into far.o tags ({declared}) as "
        f"select _wstart ws, sum(v) total from w partition by {', '.join(types)} interval(1m)"
    )
    meters.execute(f"insert into w1 values ({START}, 1) w2 values ({START}, 2)")
    with headrace.connect(settings=meters.session.context.settings.replace(changed), clock=headrace.ManualClock(START)) as other:
        other.settle()
        tables, target = other.session.context.tables, other.session.context.catalog.tables.get("far", "o")
        rows = DeltaTable(rows_uri(tables.uri, target)).to_pyarrow_table().sort_by("total").select(list(types))
        tags = tables.tags.read(target).sort_by("i").select(list(types))
        assert rows.to_pylist() == tags.to_pylist()
        assert other.execute("select i, total from far.o order by total").fetchall() == [(-1, 1), (None, 2)]
        assert other.execute("select n, sum(total) from far.o where i = -1 group by n").fetchall() == [("ä", 1)]
        assert other.verify(stream="d.s").equal


def test_the_timeline_shows_the_tags_in_place_of_hashes(meters: headrace.Connection) -> None:
    create(meters)
    insert(meters, ("a", 0, 1), ("c", 0, 4))
    context = meters.session.context
    (record,) = context.catalog.jobs.all()
    timeline = read_timeline(context, record, TimelineChoice(), 10)
    assert sorted(timeline.labels.values()) == ["north, 1", "south, 2"]
    assert set(timeline.labels) == set(timeline.series)
    assert list(read_timeline(context, record, TimelineChoice(tag=("site", "south")), 10).labels.values()) == ["south, 2"]
