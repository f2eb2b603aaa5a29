"""Writes of several threads that share commits. While a test holds a table's lock, writes to it wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from headrace.errors import DataError, TransientError
from headrace.model.tables import TBNAME, Column
from headrace.model.trees import tree_table
from headrace.model.types import BIGINT
from headrace.storage import Tables
from headrace.storage.delta.group_commit import GroupCommit
from headrace.storage.types import rows_schema
from tests.storage.samples import METERS, POWER, read, rows
from tests.support.waiting import wait_until


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as threads:
        yield threads


@pytest.fixture
def group(meters: Tables) -> GroupCommit:
    return GroupCommit(lambda: meters.writer, 1, 1 << 20)


def waits(group: GroupCommit, count: int) -> bool:
    return group.waiting == count


def write_behind(
    tables: Tables, group: GroupCommit, pool: ThreadPoolExecutor, *writes: Callable[[], object]
) -> list[Future[object]]:
    """Start writes one after the other that all wait behind a first one, and let them go."""
    with tables.writer.exclusive(tables.writer.lock_name(METERS)):
        first = pool.submit(group.write, METERS, POWER, rows([{"ts": 0, "a": 0}]), update_columns=["ts", "a"])
        wait_until(lambda: group.is_committing(METERS.id), "the first write")
        futures = []
        for number, write in enumerate(writes, 1):
            futures.append(pool.submit(write))
            wait_until(partial(waits, group, number), "the write to wait")
    first.result()
    return futures


def test_writes_that_arrive_during_a_commit_share_the_next_one(
    meters: Tables, group: GroupCommit, pool: ThreadPoolExecutor
) -> None:
    writes = [
        lambda n=number: group.write(METERS, POWER, rows([{"ts": n, "a": n, "b": 0.5}, {"ts": 50, "a": n, "b": 0.5}]))
        for number in range(1, 11)
    ]
    before = meters.version(METERS)

    results = [future.result() for future in write_behind(meters, group, pool, *writes)]

    assert meters.version(METERS) == before + 2
    assert len({result.version for result in results}) == 1  # type: ignore[attr-defined]
    stored = {row["ts"]: row["a"] for row in read(meters.scan(METERS))}
    assert stored == {number: number for number in range(11)} | {50: 10}, "the last write of a key wins"


def test_an_invalid_row_fails_its_own_write_alone(meters: Tables, group: GroupCommit, pool: ThreadPoolExecutor) -> None:
    with pytest.raises(DataError, match="cannot be NULL"):
        group.write(METERS, POWER, rows([{"ts": 1, "a": 1, TBNAME: None}]))
    meters.columns.retire(METERS, "b", lambda: None)

    good, bad = write_behind(
        meters,
        group,
        pool,
        lambda: group.write(METERS, POWER, rows([{"ts": 1, "a": 1}]), update_columns=["ts", "a"]),
        lambda: group.write(METERS, POWER, rows([{"ts": 2, "b": 2.0}]), update_columns=["ts", "b"]),
    )

    good.result()
    with pytest.raises(TransientError, match="b"):
        bad.result()
    assert [row["ts"] for row in read(meters.scan(METERS))] == [0, 1]


@pytest.mark.parametrize("columns", ["a", "ab"])
def test_a_lock_that_cannot_be_had_fails_all_writes_of_a_group_at_once(
    meters: Tables, group: GroupCommit, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """Each of them would have waited for it in turn."""
    attempts: list[str] = []

    @contextmanager
    def locked(name: str) -> Iterator[None]:
        attempts.append(name)
        raise TransientError(f"{name} is locked", hint="try again")
        yield

    own = [columns[number % len(columns)] for number in range(10)]
    parts = [(rows([{"ts": number, name: 1}]), ["ts", name]) for number, name in enumerate(own)]
    with meters.writer.merging_by_spark(meters.writer.lock_name(METERS)), monkeypatch.context() as outage:
        outage.setattr(meters.writer, "_lock", locked)
        with pytest.raises(TransientError, match="a load that Spark merges"):
            group.write_all(METERS, POWER, parts)
    assert len(attempts) == 1
    group.write_all(METERS, POWER, parts)
    assert len(read(meters.scan(METERS))) == len(parts)


def test_writes_that_name_different_columns_keep_what_they_do_not_name(
    meters: Tables, group: GroupCommit, pool: ThreadPoolExecutor
) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1, "b": 1.0}]))
    futures = write_behind(
        meters,
        group,
        pool,
        lambda: group.write(METERS, POWER, rows([{"ts": 1, "a": 10}]), update_columns=["ts", "a"]),
        lambda: group.write(METERS, POWER, rows([{"ts": 1, "b": 10.0}]), update_columns=["ts", "b"]),
    )
    for future in futures:
        future.result()

    assert [(row["ts"], row["a"], row["b"]) for row in read(meters.scan(METERS))] == [(0, 0, None), (1, 10, 10.0)]


def test_new_rows_with_different_columns_are_one_commit(meters: Tables, group: GroupCommit, pool: ThreadPoolExecutor) -> None:
    before = meters.version(METERS)
    futures = write_behind(
        meters,
        group,
        pool,
        lambda: group.write(METERS, POWER, rows([{"ts": 1, "a": 1}]), update_columns=["ts", "a"]),
        lambda: group.write(METERS, POWER, rows([{"ts": 2, "b": 2.0}]), update_columns=["ts", "b"]),
    )
    for future in futures:
        future.result()

    assert meters.version(METERS) == before + 2
    assert [(row["a"], row["b"]) for row in read(meters.scan(METERS))] == [(0, None), (1, None), (None, 2.0)]


def test_writers_wait_while_there_is_no_room(meters: Tables, pool: ThreadPoolExecutor) -> None:
    row = rows([{"ts": 1, "a": 1, "b": 1.0}])
    group = GroupCommit(lambda: meters.writer, 1, row.nbytes)
    with meters.writer.exclusive(meters.writer.lock_name(METERS)):
        first = pool.submit(group.write, METERS, POWER, row)
        wait_until(lambda: group.is_committing(METERS.id), "the first write")
        second = pool.submit(group.write, METERS, POWER, rows([{"ts": 2, "a": 1, "b": 1.0}]))
        wait_until(lambda: group.is_full, "the second write to wait for room")
        assert group.waiting == 0
    first.result()
    second.result()

    assert len(read(meters.scan(METERS))) == 2


def test_points_of_a_tree_are_combined(tables: Tables, pool: ThreadPoolExecutor) -> None:
    database = replace(POWER, name="root.plant")
    table = replace(
        tree_table("root.plant"), columns=(tree_table("root.plant").columns[0], Column("a", BIGINT), Column("b", BIGINT))
    )
    schema = rows_schema(table, database)
    tables.create(table, database)
    group = GroupCommit(lambda: tables.writer, 1, 1 << 20)

    def points(**values: int) -> pa.Table:
        names = [schema.names[0], *values, "device"]
        arrays = [[1], *([value] for value in values.values()), ["root.plant.d1"]]
        return pa.table([pa.array(value, schema.field(name).type) for name, value in zip(names, arrays, strict=True)], names=names)

    list(pool.map(lambda own: group.write_points(table, database, own, max_rows=0), [points(a=1), points(b=2)]))

    assert [(row["a"], row["b"]) for row in tables.scan(table).to_pylist()] == [(1, 2)]
