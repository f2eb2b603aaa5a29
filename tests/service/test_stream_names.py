"""What names of streams mean without a current database, and what statements say that had nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import InvalidStreamError, NotFoundError, ProgrammingError
from headrace.streams.kind import STREAM
from tests.service.conftest import START

AS = "as select _wstart, count(*) n from"


@pytest.fixture
def unbound(tmp_path: Path) -> Iterator[headrace.Connection]:
    """A connection without a current database; `d` and `e` have the same tables."""
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as connection:
        for database in ("d", "e"):
            connection.execute(f"create database {database}")
            connection.execute(f"create table {database}.t (ts timestamp, v int)")
        yield connection


def streams(connection: headrace.Connection) -> list[str]:
    return [str(record.definition) for record in connection.session.context.catalog.jobs.all(kind=STREAM)]


def test_a_stream_needs_no_current_database_if_its_tables_name_one(unbound: headrace.Connection) -> None:
    unbound.execute(f"create stream s trigger at_once into d.o {AS} d.t interval(1m)")
    assert streams(unbound) == ["d.s"]
    unbound.execute(f"create stream if not exists s trigger at_once into d.o {AS} d.t interval(1m)")
    unbound.execute("pause stream s")
    unbound.execute("resume stream s")
    unbound.execute(f"create or replace stream s trigger window_close into d.o {AS} d.t interval(1m)")
    assert streams(unbound) == ["d.s"]
    with pytest.raises(NotFoundError, match="stream other does not exist"):
        unbound.execute("drop stream other")
    unbound.execute("drop stream s")
    unbound.settle()
    assert streams(unbound) == []


def test_a_name_that_several_streams_have_needs_a_database(unbound: headrace.Connection) -> None:
    for database in ("d", "e"):
        unbound.execute(f"create stream s trigger at_once into {database}.o {AS} {database}.t interval(1m)")
    with pytest.raises(ProgrammingError, match=r"several streams are called s: d\.s, e\.s"):
        unbound.execute("drop stream s")
    assert streams(unbound) == ["d.s", "e.s"]


@pytest.mark.parametrize("verb", ["drop", "pause", "resume", "replay quarantine of", "drop quarantine of"])
def test_a_statement_about_a_missing_stream_says_that_it_did_nothing(unbound: headrace.Connection, verb: str) -> None:
    unbound.execute(f"create stream same trigger at_once into d.o {AS} d.t interval(1m)")
    unbound.execute("use e")
    note = unbound.execute(f"{verb} stream if exists same").note
    assert note == "stream e.same does not exist, so nothing was done; there is d.same"
    assert unbound.execute(f"{verb} stream if exists none").note == "stream e.none does not exist, so nothing was done"
    assert unbound.execute(f"explain {verb} stream if exists none").fetchall() == [
        ("stream e.none does not exist, so nothing was done",)
    ]
    assert streams(unbound) == ["d.same"]


def test_the_snode_of_the_first_dnode_is_always_there(unbound: headrace.Connection) -> None:
    assert unbound.execute("create snode on dnode 1").note == "the snode of dnode 1 is always there, so nothing was done"


def test_a_pause_is_shown_at_once(unbound: headrace.Connection) -> None:
    unbound.execute(f"create stream s trigger at_once into d.o {AS} d.t interval(1m)")
    unbound.settle()
    query = "select status from information_schema.ins_stream_progress"
    for statement, status in (("pause", "PAUSED"), ("resume", "RUNNING")):
        unbound.execute(f"{statement} stream s")
        assert unbound.execute(query).fetchall() == [(status,)]


def test_tags_of_an_existing_target_are_filled_by_position(readings: headrace.Connection) -> None:
    readings.execute("create stable one (ts timestamp, n bigint) tags (name varchar(20))")
    readings.execute("create stable two (ts timestamp, n bigint) tags (number int, name varchar(20))")
    readings.execute(f"create stream s1 trigger at_once into one {AS} readings partition by tbname interval(1m)")
    readings.execute(f"create stream s2 trigger at_once into two {AS} readings partition by floor, place interval(1m)")
    readings.execute("create stable three (ts timestamp, n bigint) tags (number int, name varchar(20))")
    with pytest.raises(InvalidStreamError, match="three has 2 tags, and PARTITION BY 1 value"):
        readings.execute(f"create stream s3 trigger at_once into three {AS} readings partition by floor interval(1m)")
    readings.execute(f"insert into dev1 values ({START}, 1, 1.0) dev2 values ({START}, 2, 1.0)")
    readings.settle()
    assert sorted(readings.execute("select distinct name from one").fetchall()) == [("dev1",), ("dev2",)]
    assert sorted(readings.execute("select number, name from two").fetchall()) == [(1, "north"), (2, "south")]


@pytest.mark.spark
def test_the_rows_of_a_history_are_shown_beside_those_of_the_stream(unbound: headrace.Connection) -> None:
    unbound.execute(f"insert into d.t values ({START}, 1) ({START + 1}, 2)")
    unbound.execute(f"create stream s trigger at_once fill_history 1 into d.o {AS} d.t interval(1m)")
    unbound.execute(f"create stream plain trigger at_once into d.p {AS} d.t interval(1m)")
    unbound.settle()
    unbound.execute(f"insert into d.t values ({START + 60_000}, 3)")
    unbound.settle()
    cursor = unbound.execute("show streams")
    names = [column[0] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    assert [(row["stream_name"], row["rows_in"], row["rows_history"]) for row in rows] == [("plain", 1, None), ("s", 1, 2)]
