"""Registers tables in a metastore of Derby and prints what it has. The catalog of a Spark session is that of its whole process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import headrace
from headrace.model.clock import ManualClock
from headrace.runtime.spark_catalog import field_of, open_metastore
from headrace.runtime.table_maintenance import maintain
from headrace.settings import load

START = 1_700_000_000_000
STREAM = (
    "create stream d.s trigger at_once into d.o tags (site varchar(10)) as select _wstart ws, sum(v) total from d.m partition by "
)


def main(folder: Path) -> None:
    """Register tables beside those of others, drop some, and register them again."""
    settings = load(home=str(folder / "a home"), metastore=f"jdbc:derby:;databaseName={folder}/metastore;create=true")
    with headrace.connect(settings=settings, clock=ManualClock(START)) as connection:
        spark = open_metastore(settings)

        def rows(statement: str) -> list[Any]:
            return [list(row) for row in spark.sql(statement).collect()]

        def names(schema: str) -> list[str]:
            return [row[1] for row in rows(f"show tables in {schema}")]

        for database in ("d", "gone", "theirs"):
            connection.execute(f"create database {database}")
            connection.execute(f"create stable {database}.m (ts timestamp, v int) tags (site varchar(10)) comment 'it''s a meter'")
        connection.execute("create table d.`Upper` (ts timestamp, v int)")
        connection.execute(f"{STREAM} site interval(1m)")
        connection.execute(
            f"insert into d.a using d.m tags ('north') values ({START}, 1) d.b using d.m tags ('süd') values ({START}, 2)"
        )
        connection.settle()
        context = connection.session.context
        version = context.tables.version(context.catalog.tables.get("d", "o"))
        spark.sql("create schema theirs")
        maintain(context)
        spark.sql("create table d.plain (a int)")
        spark.sql(f"create table d.alias using delta location '{rows('describe detail d.m')[0][4]}'")
        shown: dict[str, Any] = {
            "results": rows("select site, total from d.o order by site"),
            "tags": rows("select v, site from d.m join d.m_tags using (tbname) order by v"),
            "first": {name: names(name) for name in ("d", "gone", "theirs")},
            "written": context.tables.version(context.catalog.tables.get("d", "o")) - version,
            "comments": {name: comment(spark, name) for name in ("m", "o")},
        }
        connection.execute("drop stream d.s")
        connection.execute("drop stable d.o")
        connection.execute("drop database gone")
        maintain(context)
        maintain(context)
        shown["second"] = names("d")
        shown["schemas"] = [row[0] for row in rows("show schemas")]
        shown["comment"] = comment(spark, "m")
        shown["events"] = sorted({(event.kind, event.message) for event in context.catalog.events.all("metastore")})
        sys.stdout.write(json.dumps(shown))


def comment(spark: Any, name: str) -> str:
    return field_of(spark.sql(f"show table extended in d like '{name}'").collect()[0]["information"], "Comment")


def away(folder: Path) -> None:
    """Maintain tables while the metastore is away."""
    settings = load(
        home=str(folder / "home"),
        metastore="thrift://127.0.0.1:1",
        spark_options="spark.hadoop.hive.metastore.connect.retries=1 spark.hadoop.hive.metastore.client.connect.retry.delay=0",
    )
    with headrace.connect(settings=settings, clock=ManualClock(START)) as connection:
        connection.execute("create database d")
        connection.execute("create table d.m (ts timestamp, v int)")
        connection.execute(f"insert into d.m values ({START}, 1)")
        context = connection.session.context
        maintained = [result.table for result in maintain(context)]
        events = [(event.kind, event.message) for event in context.catalog.events.all("metastore")]
        rows = connection.execute("select v from d.m").fetchall()
        sys.stdout.write(json.dumps({"maintained": maintained, "events": events, "rows": rows}))


if __name__ == "__main__":
    {"main": main, "away": away}[sys.argv[2]](Path(sys.argv[1]))
