"""Small replacements, whose log entries Headrace writes itself."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.tables import TBNAME, Column
from headrace.model.types import DataType, TypeKind
from headrace.storage import Tables
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.creation import CHECKPOINT_INTERVAL_VERSIONS
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.maintenance import CHECK_VERSIONS
from headrace.storage.delta.rewriting import MAX_COPIED_ROWS, MAX_READ_ROWS, rewrite
from headrace.storage.delta.snapshots import Snapshot
from headrace.storage.delta.written_rows import forget_written, keep_written
from tests.storage.samples import METERS, POWER, Row, changes_frame, open_tables, read, rows
from tests.support.racing import race

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP = st.sampled_from(["replace", "replace", "replace", "replace elsewhere", "delete", "compact", "create again"])
NO_KEYS = rows([]).select([TBNAME, "ts"])


def folder(tables: Tables) -> Path:
    return Path(tables.uri) / "power/meters/rows"


def is_rewritten(tables: Tables, version: int) -> bool:
    """Return whether Headrace has written a log entry."""
    entry = (folder(tables) / f"_delta_log/{version:020}.json").read_text().splitlines()[0]
    return bool(json.loads(entry)["commitInfo"]["engineInfo"] == "headrace")


def replace_rows(tables: Tables, *batch: Row) -> WriteMetrics:
    written = tables.writer.replace(METERS, POWER, rows(batch), None, None)
    assert written is not None
    return written


def data_files(tables: Tables) -> set[str]:
    return {Path(uri).name for uri in DeltaTable(str(folder(tables))).file_uris()}


def unreferenced_files(tables: Tables) -> set[str]:
    """Return the files that no log entry names."""
    logged = "".join(path.read_text() for path in folder(tables).glob("_delta_log/*.json"))
    return {path.name for path in folder(tables).rglob("*.parquet") if path.name not in logged}


def test_updates_leave_files_of_other_times_as_they_are(meters: Tables) -> None:
    for ts in (1, 1_000, 2_000):
        replace_rows(meters, {"ts": ts, "a": 1})
    before = data_files(meters)
    replace_rows(meters, {"ts": 2_000, "a": 2}, {"ts": 3_000, "a": 3})

    assert is_rewritten(meters, meters.version(METERS))
    assert len(before & data_files(meters)) == 2
    assert len(data_files(meters)) == 3


def test_rows_that_are_copied_in_number_are_copied_once(meters: Tables) -> None:
    replace_rows(meters, *({"ts": ts, "a": 0} for ts in range(MAX_COPIED_ROWS + 2)))
    replace_rows(meters, {"ts": 7, "a": 1})
    copied = data_files(meters)
    replace_rows(meters, {"ts": 7, "a": 2})

    assert len(copied) == len(data_files(meters)) == 2
    assert len(copied & data_files(meters)) == 1
    assert meters.rows(METERS) == MAX_COPIED_ROWS + 2


def test_larger_files_are_merged_by_delta_rs(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": ts, "a": 0, "b": None} for ts in range(MAX_READ_ROWS + 1)]))
    written = replace_rows(meters, {"ts": 7, "a": 1})

    assert (written.updated, written.inserted) == (1, 0)
    assert not is_rewritten(meters, written.version)


def test_nan_equals_nan_and_zero_has_a_sign(meters: Tables) -> None:
    replace_rows(meters, {"ts": 1, "b": float("nan")}, {"ts": 2, "b": 0.0})
    written = replace_rows(meters, {"ts": 1, "b": float("nan")}, {"ts": 2, "b": -0.0})

    assert (written.updated, written.inserted) == (1, 0)


def test_checkpoints_are_written(meters: Tables) -> None:
    for number in range(CHECKPOINT_INTERVAL_VERSIONS + CHECK_VERSIONS):
        replace_rows(meters, {"ts": 1, "a": number})
    meters.maintenance.close()
    last = json.loads((folder(meters) / "_delta_log/_last_checkpoint").read_text())

    assert 0 < last["version"] <= CHECKPOINT_INTERVAL_VERSIONS + CHECK_VERSIONS
    assert is_rewritten(meters, meters.version(METERS))
    assert read(open_tables(Path(meters.uri).parent).scan(METERS))[0]["a"] == CHECKPOINT_INTERVAL_VERSIONS + CHECK_VERSIONS - 1


def test_a_writer_keeps_columns_that_it_does_not_know(meters: Tables) -> None:
    new = Column("c", DataType(TypeKind.INT))
    wider = replace(METERS, columns=(*METERS.columns, new))
    replace_rows(meters, {"ts": 1, "a": 1})
    meters.columns.add(METERS, POWER, [new])
    meters.writer.replace(wider, POWER, rows([{"ts": 1, "a": 2, "c": 5}], wider), None, None)
    replace_rows(meters, {"ts": 1, "a": 3}, {"ts": 2, "a": 4})

    stored = {row["ts"]: (row["a"], row["c"]) for row in read(meters.scan(wider))}
    assert stored == {1: (3, 5), 2: (4, None)}


@pytest.mark.parametrize(
    "properties", [{"delta.appendOnly": "false"}, {"delta.enableChangeDataFeed": "false"}, {"custom": "value"}]
)
def test_a_table_with_other_properties_is_left_to_delta_rs(meters: Tables, properties: dict[str, str]) -> None:
    DeltaTable(str(folder(meters))).alter.set_table_properties(properties, raise_if_not_exists=False)
    replace_rows(meters, {"ts": 1, "a": 1})
    written = replace_rows(meters, {"ts": 1, "a": 2})

    assert not is_rewritten(meters, written.version)
    assert read(meters.scan(METERS))[0]["a"] == 2


def test_a_table_with_constraints_is_left_to_delta_rs(meters: Tables) -> None:
    DeltaTable(str(folder(meters))).alter.add_constraint({"small": "a < 10"})
    written = replace_rows(meters, {"ts": 1, "a": 2})

    assert not is_rewritten(meters, written.version)


def test_a_replacement_is_computed_again_after_a_concurrent_commit(meters: Tables) -> None:
    other = Tables(meters.uri, lambda _: nullcontext(), 1_000)
    replace_rows(meters, {"ts": 1, "a": 1, "b": 1.0})
    upserts = rows([{"ts": 1, "a": 2, "b": 2.0}])
    seen: list[int] = []

    def work(handle: Handle, snapshot: Snapshot) -> WriteMetrics | None:
        seen.append(snapshot.number)
        if len(seen) == 1:
            other.writer.replace(METERS, POWER, rows([{"ts": 1, "a": 3}]), None, None)
        return rewrite(handle, snapshot, METERS, upserts, NO_KEYS, None)

    assert meters.writer.attempts_at_snapshot(meters._handles.writer(METERS), work) == WriteMetrics(3, updated=1)
    assert seen == [1, 2]
    assert unreferenced_files(meters) == set()
    feed = read(meters.changes.read(METERS, 3, 3))
    assert {row["_change_type"]: row["a"] for row in feed} == {"update_preimage": 3, "update_postimage": 2}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(STEP, st.integers(0, 4)), max_size=15))
def test_snapshots_have_what_the_log_has(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    home = tmp_path_factory.mktemp("home")
    tables, other = open_tables(home), open_tables(home)
    tables.create(METERS, POWER)
    expected: dict[int, int] = {}
    for number, (step, ts) in enumerate(steps):
        match step:
            case "replace" | "replace elsewhere":
                (tables if step == "replace" else other).writer.replace(METERS, POWER, rows([{"ts": ts, "a": number}]), None, None)
                expected[ts] = number
            case "delete":
                tables.writer.replace(METERS, POWER, None, rows([{"ts": ts}]).select([TBNAME, "ts"]), None)
                expected.pop(ts, None)
            case "compact":
                DeltaTable(str(folder(tables))).optimize.compact()
            case "create again":
                tables.drop(METERS)
                other.create(METERS, POWER)
                expected = {}
        assert snapshot_of(tables) == snapshot_of(open_tables(home))
    assert {row["ts"]: row["a"] for row in read(tables.scan(METERS))} == expected


def snapshot_of(tables: Tables) -> tuple[int, pa.Schema, list[tuple[object, ...]]]:
    """Return the newest version, the columns, and the files with their statistics."""
    names = ["path", "size_bytes", "num_records", "min.ts", "max.ts", f"min.{TBNAME}", f"max.{TBNAME}"]
    with tables._handles.writer(METERS).latest_snapshot() as snapshot:
        columns = [snapshot.files[name].to_pylist() for name in names] if snapshot.files.num_rows else []
        return snapshot.number, snapshot.schema, sorted(zip(*columns, strict=True))


def test_the_next_replacement_needs_no_call_of_delta_rs(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_rows(meters, {"ts": 1, "a": 1}, {"ts": 2, "a": 2})
    monkeypatch.setattr("headrace.storage.delta.handles.DeltaTable", None)
    monkeypatch.setattr(DeltaTable, "update_incremental", None)
    monkeypatch.setattr("headrace.storage.delta.rewriting.pq", None)

    assert replace_rows(meters, {"ts": 2, "a": 3}).updated == 1


def test_the_rows_of_written_files_are_kept_if_they_are_few(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.storage.delta.written_rows.MAX_KEPT_ROWS", 2)
    handle, few, many = Handle(str(folder(meters)), "meters"), rows([{"ts": 1}, {"ts": 2}]), rows([{"ts": ts} for ts in range(3)])
    keep_written(handle, "few", few.slice(1))
    keep_written(handle, "many", many)
    kept = handle.written.get(f"{handle.uri}/few")
    assert kept == few.slice(1)
    assert kept.nbytes < few.nbytes
    assert handle.written.get(f"{handle.uri}/many") is None

    forget_written(handle, ["few"])
    assert handle.written.get(f"{handle.uri}/few") is None


def count_up(home: str, writer: int) -> None:
    """Replace a row of this writer again and again, without a lock."""
    tables = Tables(f"{home}/tables", lambda _: nullcontext(), 1_000)
    for number in range(12):
        tables.writer.replace(METERS, POWER, rows([{"ts": writer, "a": number}, {"ts": 100 * writer + number, "a": 0}]), None, None)


def test_racing_processes_lose_no_replacement(tmp_path: Path, meters: Tables) -> None:
    race(count_up, [(str(tmp_path), writer) for writer in (1, 2, 3)])

    stored = {row["ts"]: row["a"] for row in read(meters.scan(METERS))}
    assert [stored[writer] for writer in (1, 2, 3)] == [11, 11, 11]
    assert len(stored) == meters.rows(METERS) == 3 * 13
    assert meters.version(METERS) == 3 * 12


@pytest.mark.spark
def test_spark_reads_rows_and_changes(meters: Tables, spark: SparkSession) -> None:
    replace_rows(meters, {"ts": 1, "a": 1, "b": 0.5}, {"ts": 2, "a": 1})
    written = meters.writer.replace(METERS, POWER, rows([{"ts": 1, "a": 2}]), rows([{"ts": 2}]).select([TBNAME, "ts"]), None)
    assert written is not None
    assert is_rewritten(meters, written.version)

    frame = meters.frame(spark, METERS)
    assert [(row["a"], row["b"], row[TBNAME]) for row in frame.collect()] == [(2, None, "d1")]
    feed = changes_frame(spark, meters, METERS, written.version, written.version)
    assert sorted((row["_change_type"], row["a"]) for row in feed.collect()) == [
        ("delete", 1),
        ("update_postimage", 2),
        ("update_preimage", 1),
    ]
