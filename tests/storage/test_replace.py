from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.errors import FencedError
from headrace.model.failpoints import FailpointError, armed
from headrace.storage import Commit, Tables
from headrace.storage.delta import writer
from headrace.storage.delta.commits import chunk_app, epoch_app, stream_app
from tests.storage.samples import METERS, POWER, Row, read, rows

S = "s"


def results(*batch: Row) -> pa.Table:
    return rows(batch)


def keys(*batch: int) -> pa.Table:
    return rows([{"ts": ts} for ts in batch]).select(["tbname", "ts"])


def stored(tables: Tables) -> dict[int, int]:
    return {row["ts"]: row["a"] for row in read(tables.scan(METERS))}


def first(version: int = 0, epoch: int = 1) -> Commit:
    return Commit.of_stream(S, version, None, epoch)


def test_results_are_upserted_and_retracted_in_one_commit(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}, {"ts": 2, "a": 2}), None, first())
    written = meters.writer.replace(
        METERS, POWER, results({"ts": 2, "a": 20}, {"ts": 3, "a": 3}), keys(1), Commit.of_stream(S, 1, 0, 1)
    )

    assert written is not None
    assert (written.version, written.inserted, written.updated, written.deleted) == (2, 1, 1, 1)
    assert stored(meters) == {2: 20, 3: 3}


def test_results_replace_the_whole_row(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1, "b": 1.0}), None, None)
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 2}), None, None)

    assert read(meters.scan(METERS))[0]["b"] is None


def test_a_commit_that_is_recorded_changes_nothing(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, first())

    assert meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 99}), None, first()) is None
    assert meters.version(METERS) == 1
    assert stored(meters) == {1: 1}


def test_the_transaction_records_the_offsets(meters: Tables) -> None:
    assert meters.transaction(METERS, stream_app(S)) is None
    meters.writer.replace(METERS, POWER, results({"ts": 1}), None, first(7))

    assert meters.transaction(METERS, stream_app(S)) == 7


@pytest.mark.parametrize(("upserts", "deletes"), [(None, None), (None, keys(1)), (results(), keys())])
def test_a_commit_without_effect_is_recorded(meters: Tables, upserts: pa.Table | None, deletes: pa.Table | None) -> None:
    written = meters.writer.replace(METERS, POWER, upserts, deletes, first(3))

    assert written is not None
    assert written.rows == 0
    assert meters.transaction(METERS, stream_app(S)) == 3
    assert meters.changes.read(METERS, 1, 1).num_rows == meters.changes.count(METERS, 1, 1) == 0


def test_unchanged_results_are_not_rewritten(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}, {"ts": 2, "a": None}), None, first())
    written = meters.writer.replace(
        METERS, POWER, results({"ts": 1, "a": 1}, {"ts": 2, "a": None}), None, Commit.of_stream(S, 1, 0, 1)
    )

    assert written is not None
    assert written.rows == 0
    assert meters.changes.read(METERS, written.version, written.version).num_rows == 0
    assert meters.transaction(METERS, stream_app(S)) == 1


def test_a_key_that_is_retracted_and_upserted_is_kept(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, None)
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 2}), keys(1, 1, 5), None)

    assert stored(meters) == {1: 2}


def test_updates_are_merged_without_a_key_lookup(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}, {"ts": 2, "a": 1}]))
    monkeypatch.setattr(writer, "find_stored_keys", None)
    written = meters.writer.replace(
        METERS, POWER, results({"ts": 0, "a": 2}, {"ts": 1, "a": 2}), keys(2, 5), first(), is_update=True
    )

    assert written is not None
    assert (written.inserted, written.updated, written.deleted) == (1, 1, 1)
    assert stored(meters) == {0: 2, 1: 2}


def test_updates_of_rows_that_do_not_exist_are_inserted(meters: Tables) -> None:
    written = meters.writer.replace(METERS, POWER, results({"ts": 0, "a": 2}), keys(2), first(), is_update=True)

    assert written is not None
    assert (written.inserted, written.updated, written.deleted) == (1, 0, 0)
    assert stored(meters) == {0: 2}


def test_a_driver_that_expects_another_version_is_fenced(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, first(4))

    with pytest.raises(FencedError, match="is at 4, not at 3"):
        meters.writer.replace(METERS, POWER, results({"ts": 2}), None, Commit.of_stream(S, 5, 3, 1))
    with pytest.raises(FencedError, match="is at 4, not at None"):
        meters.writer.replace(METERS, POWER, results({"ts": 2}), None, first(5))
    assert stored(meters) == {1: 1}


def test_after_a_fence_an_older_driver_commits_no_more_and_the_newer_does(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, first(0, epoch=1))
    meters.writer.fence(METERS, S, 2)

    with pytest.raises(FencedError, match=r"epoch 1\) has passed to another \(epoch 2"):
        meters.writer.replace(METERS, POWER, results({"ts": 2}), None, Commit.of_stream(S, 1, 0, 1))
    assert meters.writer.replace(METERS, POWER, results({"ts": 2, "a": 2}), None, Commit.of_stream(S, 1, 0, 2)) is not None
    assert stored(meters) == {1: 1, 2: 2}


def test_a_commit_carries_its_epoch_so_that_no_fence_is_needed(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1}), None, first(0, epoch=5))

    assert meters.transaction(METERS, epoch_app(S)) == 5
    with pytest.raises(FencedError):
        meters.writer.fence(METERS, S, 4)


def test_a_fence_keeps_results_and_offsets(meters: Tables) -> None:
    meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, first(3))
    meters.writer.fence(METERS, S, 2)

    assert meters.transaction(METERS, stream_app(S)) == 3
    assert stored(meters) == {1: 1}


def test_fencing_twice_with_one_epoch_commits_once(meters: Tables) -> None:
    meters.writer.fence(METERS, S, 2)
    meters.writer.fence(METERS, S, 2)

    assert meters.version(METERS) == 1


def test_streams_into_one_table_do_not_fence_each_other(meters: Tables) -> None:
    meters.writer.fence(METERS, "other", 9)

    assert meters.writer.replace(METERS, POWER, results({"ts": 1}), None, first(0, epoch=1)) is not None


def test_chunks_of_a_backfill_commit_in_any_order_and_once_each(meters: Tables) -> None:
    for number in (2, 0, 1, 2, 0):
        meters.writer.replace(METERS, POWER, results({"ts": number, "a": number}), None, Commit(chunk_app(S, "run", number), 1))

    assert meters.version(METERS) == 3
    assert stored(meters) == {0: 0, 1: 1, 2: 2}


def test_a_commit_with_a_lost_response_is_not_repeated(meters: Tables) -> None:
    with armed("storage.committed:1:raise"), pytest.raises(FailpointError):
        meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, first())

    assert meters.writer.replace(METERS, POWER, results({"ts": 1, "a": 1}), None, first()) is None
    assert stored(meters) == {1: 1}


DRIVER = """
import pathlib, sys
from headrace.storage import Commit
from tests.storage.samples import METERS, POWER, open_tables, rows
tables = open_tables(pathlib.Path(sys.argv[1]))
tables.writer.replace(METERS, POWER, rows([{"ts": 1, "a": 1}]), None, Commit.of_stream("s", 1, None, 1))
"""


@pytest.mark.parametrize(("point", "version"), [("storage.commit", 0), ("storage.committed", 1)])
def test_a_driver_killed_during_its_commit_commits_once(tmp_path: Path, meters: Tables, point: str, version: int) -> None:
    environment = {**os.environ, "HEADRACE_FAILPOINTS": f"{point}:1:kill"}
    died = subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], env=environment, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    assert meters.version(METERS) == version

    subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], check=True)
    assert meters.version(METERS) == 1
    assert stored(meters) == {1: 1}
