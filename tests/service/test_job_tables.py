"""`SHOW JOBS` and `ins_jobs`: the jobs of every kind, with the users who created them."""

from __future__ import annotations

import headrace
from headrace.settings import Settings

QUERY = "CREATE CQ q BEGIN SELECT avg(s) INTO root.plant.means(s) FROM root.plant.l GROUP BY (1m) END"


def test_show_jobs_lists_jobs_of_all_kinds_with_their_owners(settings: Settings) -> None:
    with headrace.connect(settings=settings, user="ada") as connection:
        connection.execute("create database d")
        connection.execute("create table d.t (ts timestamp, a int)")
        connection.execute("create stream d.s trigger at_once into d.o as select _wstart, count(*) n from d.t interval(1m)")
    with headrace.connect(settings=settings, dialect="iotdb", user="ben") as connection:
        connection.execute("CREATE DATABASE root.plant")
        connection.execute("CREATE TIMESERIES root.plant.l.s WITH DATATYPE=DOUBLE")
        connection.execute(QUERY)
    with headrace.connect(settings=settings, user="eve") as connection:
        query, stream = (row[:5] for row in connection.execute("show jobs").fetchall())
        assert query == ("q", None, "continuous query", "ben", "ACTIVE")
        assert stream == ("s", "d", "stream", "ada", "CREATED")
        assert [row[0] for row in connection.execute("show jobs from d").fetchall()] == ["s"]
        assert [row[0] for row in connection.execute("show jobs like 'q%'").fetchall()] == ["q"]
        replaced = "create or replace stream d.s trigger at_once into d.o as select _wstart, count(*) n from d.t interval(2m)"
        connection.execute(replaced)
        owners = connection.execute("select owner from information_schema.ins_jobs where kind = 'stream'").fetchall()
        assert owners == [("eve",)], "the statement of a stream is that of its owner"
