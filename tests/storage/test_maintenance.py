from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.tables import TBNAME
from headrace.storage import Tables
from headrace.storage.delta.maintenance import (
    FAN_IN,
    MIN_FILE_BYTES,
    MIN_SMALL_FILES,
    RECENT_FILES_KEPT,
    Maintenance,
    plan_compaction,
)
from headrace.storage.delta.writer import Writer
from tests.storage.samples import HOUR, METERS, POWER, START, file_locks, open_tables, read, rows
from tests.support.racing import race

MB = 2**20


def fill(tables: Tables, commits: int) -> None:
    for number in range(commits):
        tables.writer.write(METERS, POWER, rows([{"ts": START + number, "a": number, TBNAME: f"d{number % 3}"}]))


def live(tables: Tables) -> int:
    with tables._handles.reader(METERS).latest() as delta:
        return len(delta.file_uris())


def test_compaction_reduces_files_and_keeps_every_row(meters: Tables) -> None:
    fill(meters, 20)
    before = read(meters.scan(METERS))

    assert meters.maintenance.compact(METERS) == 20
    assert live(meters) == 1
    assert read(meters.scan(METERS)) == before
    assert meters.bounds(METERS) is not None
    assert meters.rows(METERS) == 20


def test_compaction_is_no_change(meters: Tables) -> None:
    fill(meters, 5)
    version = meters.version(METERS)
    meters.maintenance.compact(METERS)

    assert meters.version(METERS) == version + 1
    assert meters.changes.read(METERS, version + 1, version + 1).num_rows == 0
    assert meters.changes.count(METERS, version + 1, version + 1) == 0
    assert meters.changes.read(METERS, 0, version + 1).num_rows == 5


def test_a_compacted_table_is_updated_and_deleted_from_like_any_other(meters: Tables) -> None:
    fill(meters, 5)
    meters.maintenance.compact(METERS)

    assert meters.writer.write(METERS, POWER, rows([{"ts": START + 4, "a": 40, TBNAME: "d1"}])).updated == 1
    assert meters.writer.delete(METERS, POWER, tbnames=["d0"]) == 2
    assert [row["a"] for row in read(meters.scan(METERS))] == [1, 40, 2]


def test_one_file_is_left_as_it_is(meters: Tables) -> None:
    fill(meters, 1)

    assert meters.maintenance.compact(METERS) == 0
    assert meters.version(METERS) == 1


def test_an_older_version_can_be_read_after_compaction(meters: Tables) -> None:
    fill(meters, 5)
    meters.maintenance.compact(METERS)

    assert meters.scan(METERS, version=3).num_rows == 3


def files(*sizes: int) -> pa.Table:
    """Return files of these sizes in bytes, from the latest to the earliest."""
    times = pa.array(range(len(sizes), 0, -1), pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"path": [f"f{number}" for number in range(len(sizes))], "size_bytes": list(sizes), "min.ts": times})


def test_small_files_are_gathered_in_order_of_time_up_to_the_size_aimed_at() -> None:
    third = MIN_FILE_BYTES // 3 + 1
    groups = plan_compaction(files(third, third, third, third, third), METERS)

    assert [group.paths for group in groups] == [["f4", "f3", "f2"], ["f1", "f0"]]


def test_the_latest_files_can_be_spared() -> None:
    (group,) = plan_compaction(files(*[1] * (FAN_IN + 2)), METERS, spared=2)
    assert group.paths == [f"f{number}" for number in range(FAN_IN + 1, 1, -1)]
    assert plan_compaction(files(1, 1, 1), METERS, spared=5) == []


def test_in_the_background_files_are_left_alone_until_there_are_many_of_their_size() -> None:
    small, larger = [1] * FAN_IN, FAN_IN
    (group,) = plan_compaction(files(*small, 1, larger), METERS, spared=1)
    assert len(group.paths) == FAN_IN
    (group,) = plan_compaction(files(*small, 1, *[larger] * (FAN_IN - 1)), METERS, spared=1)
    assert len(group.paths) == 2 * FAN_IN - 1
    (group,) = plan_compaction(files(*small, larger), METERS)
    assert len(group.paths) == FAN_IN + 1
    assert plan_compaction(files(*small[:-1], 1), METERS, spared=1) == []


def test_large_files_are_left_alone() -> None:
    assert plan_compaction(files(MIN_FILE_BYTES, 1, MIN_FILE_BYTES // 2), METERS) == []


def test_many_commits_are_compacted_in_the_background(meters: Tables) -> None:
    fill(meters, MIN_SMALL_FILES + 48)
    meters.close()

    assert live(meters) <= 48 + RECENT_FILES_KEPT + 1
    assert meters.rows(METERS) == MIN_SMALL_FILES + 48


def keep_writing(home: str, writer: int) -> int:
    tables = open_tables(Path(home))
    if writer == 0:
        replaced = sum(tables.maintenance.compact(METERS) for _ in range(4))
        while replaced < 10:  # each of these lost against a writer; none writes for ever
            replaced += tables.maintenance.compact(METERS)
        return replaced
    for number in range(8):
        tables.writer.write(METERS, POWER, rows([{"ts": START + number % 5, "a": number, TBNAME: f"d{writer}"}]))
        tables.writer.write(METERS, POWER, rows([{"ts": START + HOUR + number, "a": number, TBNAME: f"d{writer}"}]))
    return 0


def test_compaction_during_writes_loses_nothing(tmp_path: Path, meters: Tables) -> None:
    fill(meters, 10)
    replaced, *_ = race(keep_writing, [(str(tmp_path), writer) for writer in range(3)])

    assert replaced >= 10
    stored = {(row[TBNAME], row["ts"]): row["a"] for row in read(meters.scan(METERS))}
    for writer in ("d1", "d2"):
        assert [stored[writer, START + place] for place in range(5)] == [5, 6, 7, 3, 4]
        assert [stored[writer, START + HOUR + number] for number in range(8)] == list(range(8))
    kinds = meters.changes.read(METERS, 0, meters.version(METERS))["_change_type"].to_pylist()
    assert kinds.count("insert") == meters.rows(METERS) == len(stored)


def test_background_compaction_completes_although_a_recent_file_is_rewritten_meanwhile(tmp_path: Path, meters: Tables) -> None:
    fill(meters, RECENT_FILES_KEPT + FAN_IN)
    handles, lock = meters._handles, file_locks(tmp_path)
    rewrites: list[int] = []

    def lock_after_rewrite(name: str) -> AbstractContextManager[None]:
        if not rewrites:  # once the files were chosen and their rows rewritten, before the commit that swaps them
            recent = rows([{"ts": START + RECENT_FILES_KEPT + FAN_IN - 2, "a": -1, TBNAME: "d1"}])
            rewrites.append(meters.writer.write(METERS, POWER, recent).updated)
        return lock(name)

    replaced = Maintenance(handles, Writer(handles, lock_after_rewrite)).compact(METERS, spared=RECENT_FILES_KEPT)

    assert (rewrites, replaced) == ([1], FAN_IN)
    assert [row["a"] for row in read(meters.scan(METERS))].count(-1) == 1


def test_a_vacuum_removes_files_that_no_retained_version_needs(meters: Tables) -> None:
    fill(meters, 10)
    meters.maintenance.compact(METERS)
    before = read(meters.scan(METERS))

    assert meters.maintenance.vacuum(METERS, 24) == 0
    assert meters.maintenance.vacuum(METERS, 0) == 10
    assert read(meters.scan(METERS)) == before
    assert meters.changes.read(METERS, 11, meters.version(METERS)).num_rows == 0


@pytest.mark.parametrize("hours", [0, 24])
def test_a_vacuum_spares_files_that_a_writer_may_be_about_to_add(meters: Tables, hours: int) -> None:
    fill(meters, 1)
    waiting = Path(meters.uri) / "power/meters/rows/part-waiting.parquet"
    waiting.write_bytes(b"")
    meters.maintenance.vacuum(METERS, hours)

    assert waiting.exists()
