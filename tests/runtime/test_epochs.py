"""Epochs after a catalog was restored from a backup."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import headrace
from headrace.context import Context
from headrace.errors import FencedError
from headrace.runtime.epochs import raise_epoch
from tests.runtime.meters import Meters


def test_an_epoch_is_raised_above_those_in_the_targets(context: Context) -> None:
    stream = Meters.create(context).create_stream("TRIGGER AT_ONCE")
    lease = context.catalog.leases.acquire("default", "a", 60_000)
    assert lease is not None
    assert raise_epoch(context, lease, 60_000) is None
    context.tables.writer.fence(context.catalog.tables.get("db", "out"), stream, 7)
    raised = raise_epoch(context, lease, 60_000)
    assert raised is not None
    assert raised.epoch == 8
    assert context.catalog.leases.get("default") == raised
    with pytest.raises(FencedError):
        context.catalog.leases.renew(lease, 60_000)


def test_a_lease_that_another_has_taken_is_not_raised(context: Context) -> None:
    stream = Meters.create(context).create_stream("TRIGGER AT_ONCE")
    lease = context.catalog.leases.acquire("default", "a", 0)
    successor = context.catalog.leases.acquire("default", "b", 60_000)
    assert lease is not None
    context.tables.writer.fence(context.catalog.tables.get("db", "out"), stream, 2)
    with pytest.raises(FencedError):
        raise_epoch(context, lease, 60_000)
    assert context.catalog.leases.get("default") == successor


@pytest.mark.spark
def test_streams_continue_after_the_catalog_was_restored(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup.db"
    with headrace.connect(home) as connection:
        connection.execute("create database d")
        connection.execute("create table d.t (ts timestamp, v int)")
        connection.execute("create stream d.s trigger at_once into d.out as select _wstart, sum(v) total from d.t interval(1m)")
        insert(connection, 1)
    copy(home / "catalog.db", backup)
    for value in (2, 4):
        with headrace.connect(home) as connection:
            insert(connection, value)
    copy(backup, home / "catalog.db")
    with headrace.connect(home) as connection:
        insert(connection, 8)
        assert connection.execute("select total from d.out").fetchall() == [(15,)]


def insert(connection: headrace.Connection, value: int) -> None:
    connection.execute(f"insert into d.t values (17000000000{value:02d}, {value})")
    connection.settle()


def copy(source: Path, target: Path) -> None:
    """Copy a catalog as `sqlite3 .backup` does."""
    with sqlite3.connect(source) as one, sqlite3.connect(target) as other:
        one.backup(other)
    one.close()
    other.close()
