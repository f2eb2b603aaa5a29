"""Processes that write to one table at once: no duplicate key, no lost write, and a consistent change feed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from headrace.catalog.locks import FileLocks
from headrace.errors import FencedError, TransientError
from headrace.model.tables import TBNAME
from headrace.storage import Commit, Tables
from headrace.storage.delta.writer import Writer
from tests.storage.samples import METERS, POWER, open_tables, read, rows
from tests.support.racing import race

ROUNDS = 12
KEYS = 8


def opened(home: str, locked: bool) -> Tables:
    """Open tables with inter-process locks, or with nothing but the compare-and-set of commits."""
    return open_tables(Path(home)) if locked else Tables(f"{home}/tables", lambda _: nullcontext(), 100_000)


def write_overlapping(home: str, locked: bool, writer: int) -> None:
    """Set this writer's own column in any key, to values that name the writer and the round."""
    tables, chance = opened(home, locked), random.Random(writer)
    column = "a" if writer % 2 else "b"
    for number in range(ROUNDS):
        some = [{"ts": chance.randrange(KEYS), column: writer * 1000 + number} for _ in range(4)]
        tables.writer.write(METERS, POWER, rows(some), update_columns=[column])


def delete_some(home: str, locked: bool, writer: int) -> int:
    tables, chance = opened(home, locked), random.Random(writer)
    return sum(
        tables.writer.delete(METERS, POWER, tbnames=["d1"], ranges=[(key, key)])
        for key in (chance.randrange(KEYS) for _ in range(ROUNDS))
    )


def act(home: str, locked: bool, writer: int) -> int:
    """Delete rows if first, else write; return how many rows were deleted."""
    if writer == 0:
        return delete_some(home, locked, writer)
    write_overlapping(home, locked, writer)
    return 0


@pytest.mark.parametrize("locked", [True, False], ids=["with the lock", "by compare-and-set alone"])
def test_racing_writers_lose_no_write_and_double_no_key(tmp_path: Path, meters: Tables, locked: bool) -> None:
    deleted, *_ = race(act, [(str(tmp_path), locked, writer) for writer in range(3)])

    stored = read(meters.scan(METERS))
    assert len({(row[TBNAME], row["ts"]) for row in stored}) == len(stored)
    for row in stored:
        assert row["a"] is None or row["a"] // 1000 == 1
        assert row["b"] is None or row["b"] // 1000 == 2

    feed = meters.changes.read(METERS, 0, meters.version(METERS))
    kinds = Counter(feed["_change_type"].to_pylist())
    assert kinds["insert"] - kinds["delete"] == len(stored)
    assert kinds["delete"] == deleted
    assert kinds["update_preimage"] == kinds["update_postimage"]


@pytest.mark.parametrize("locked", [True, False], ids=["with the lock", "by compare-and-set alone"])
def test_racing_writers_of_different_columns_of_one_key_both_stay(tmp_path: Path, meters: Tables, locked: bool) -> None:
    race(write_overlapping, [(str(tmp_path), locked, writer) for writer in (1, 2)])

    last: dict[int, dict[int, int]] = {1: {}, 2: {}}
    for writer in (1, 2):
        chance = random.Random(writer)
        for number in range(ROUNDS):
            last[writer].update({chance.randrange(KEYS): writer * 1000 + number for _ in range(4)})
    for row in read(meters.scan(METERS)):
        assert row["a"] == last[1].get(row["ts"])
        assert row["b"] == last[2].get(row["ts"])


def drive(home: str, locked: bool, epoch: int) -> list[int]:
    """Take a stream over and commit batches until fenced off; return the batches committed."""
    tables = opened(home, locked)
    done: list[int] = []
    try:
        tables.writer.fence(METERS, "s", epoch)
        for _ in range(ROUNDS):
            at = tables.transaction(METERS, "headrace.stream.s")
            batch = 0 if at is None else at + 1
            commit = Commit.of_stream("s", batch, at, epoch)
            if tables.writer.replace(METERS, POWER, rows([{"ts": batch, "a": epoch}]), None, commit) is not None:
                done.append(batch)
    except FencedError:
        pass
    return done


@pytest.mark.parametrize("locked", [True, False], ids=["with the lock", "by compare-and-set alone"])
def test_racing_drivers_commit_each_batch_once_and_the_newest_epoch_wins(tmp_path: Path, meters: Tables, locked: bool) -> None:
    outcomes: list[Any] = race(drive, [(str(tmp_path), locked, epoch) for epoch in (1, 2, 3)])

    batches = Counter(batch for done in outcomes for batch in done)
    assert set(batches.values()) == {1}
    assert sorted(batches) == list(range(len(batches)))
    stored = {row["ts"]: row["a"] for row in read(meters.scan(METERS))}
    assert stored == {batch: epoch for epoch, done in zip((1, 2, 3), outcomes, strict=True) for batch in done}
    assert len(outcomes[2]) == ROUNDS
    assert pc.count_distinct(meters.scan(METERS)["ts"]).as_py() == len(stored)


def test_threads_of_one_process_share_its_tables(meters: Tables) -> None:
    def work(writer: int) -> int:
        seen = 0
        for number in range(10):
            meters.writer.write(METERS, POWER, rows([{"ts": number, "a": writer}, {"ts": 100 * writer + number, "a": writer}]))
            seen += meters.changes.read(METERS, 1, meters.version(METERS)).num_rows
            assert meters.scan(METERS).num_rows >= number
        return seen

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, range(1, 5)))
    assert meters.rows(METERS) == 50
    assert meters.version(METERS) >= 40


def test_a_process_that_used_tables_exits_cleanly(tmp_path: Path) -> None:
    script = """
import sys, pathlib
from tests.storage.samples import METERS, POWER, open_tables, rows
tables = open_tables(pathlib.Path(sys.argv[1]))
tables.create(METERS, POWER)
for a in range(3):
    tables.writer.write(METERS, POWER, rows([{"ts": 1, "a": a}, {"ts": 10 + a}]))
assert tables.scan(METERS).num_rows == 4
assert tables.changes.read(METERS, 0, 3).num_rows == 8
assert "pyspark" not in sys.modules
"""
    for number in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / str(number))], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_no_writer_goes_on_without_the_lock_while_spark_merges(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    locks = FileLocks(tmp_path / "locks")
    merging, other = (Writer(tables._handles, partial(locks.hold, timeout_ms=10)) for _ in range(2))

    def write() -> bool:
        with other.exclusive("table.d.t"):
            return True

    with ThreadPoolExecutor(1) as pool, merging.exclusive("table.d.t", needed=True):
        assert pool.submit(write).result(), "the holder may be frozen, and its commit would fail"
        with merging.merging_by_spark("table.d.t"), pytest.raises(TransientError, match=r"table\.d\.t is locked by a load"):
            pool.submit(write).result()
        assert pool.submit(write).result(), "the merge has ended"


def test_a_merge_of_spark_waits_for_a_writer_without_the_lock(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()

    @contextmanager
    def unreachable(name: str) -> Iterator[None]:
        raise TransientError(f"the lock {name} cannot be reached")
        yield

    writer = Writer(tables._handles, unreachable)
    steps: list[str] = []

    def merge() -> None:
        with writer.merging_by_spark("table.d.t"):
            steps.append("merge")

    with ThreadPoolExecutor(1) as pool:
        with writer.exclusive("table.d.t"):
            merging = pool.submit(merge)
            assert not wait([merging], timeout=0.2).done
            steps.append("written")
        merging.result()
    assert steps == ["written", "merge"]
