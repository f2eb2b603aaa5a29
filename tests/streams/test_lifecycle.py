"""The life of a stream: its start, pauses, failures and damaged state, and where its results go."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.model.jobs import DesiredState, JobState
from headrace.model.tables import Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.streams.lifecycle import activate, forget, skip
from headrace.streams.runner import state_store
from headrace.streams.sinks import target_groups
from tests.streams.environment import START, StreamEnvironment, open_environment
from tests.streams.oracle import Options, Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = "trigger at_once into {target} as select _wstart, count(*) n, sum(a) total from readings interval(10s)"


def counts(name: str = "s") -> str:
    return f"create stream {name} " + COUNTS.format(target=f"out_{name}")


def tens(env: StreamEnvironment, sql: str) -> list[tuple[object, ...]]:
    plan = env.create(sql)
    env.settle()
    return env.results(plan)


def state_files(env: StreamEnvironment, job_id: str) -> list[Path]:
    return sorted(Path(state_store(env.context, job_id).folder).glob("*.state"))


def test_a_stream_without_history_does_not_write_untouched_windows(env: StreamEnvironment) -> None:
    env.insert([("d0", 0, 1, None), ("d0", 15_000, 2, None)])
    assert tens(env, counts()) == []


def test_a_window_older_than_the_stream_is_complete_once_it_is_touched(env: StreamEnvironment) -> None:
    env.insert([("d0", 0, 1, None), ("d0", 15_000, 2, None)])
    plan = env.create(counts())
    env.insert([("d1", 16_000, 4, None)])
    env.settle()
    env.insert([("d1", 17_000, 8, None)])
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(10_000, 3, 14)]


def test_a_stream_continues_from_a_backfill_as_if_it_had_been_live(env: StreamEnvironment) -> None:
    options = Options(trigger="window_close", watermark=3000, partition="tbname", ignore_expired=True)
    oracle = Oracle(options)
    history = [[("d0", 0, 1, None), ("d1", 4000, 2, None)], [("d0", 15_000, 2, None), ("d1", 13_000, 3, None)]]
    for write in history:
        env.insert(write)
        oracle.insert(write)
    plan = env.create(options.sql("s"))
    boundary = env.tables.version(plan.source)
    activate(env.context, plan, {plan.source_ids[0]: boundary})
    written = set(oracle.emitted)
    for write in ([("d0", 16_000, 5, None)], [("d1", 12_000, 5, None)], [("d0", 40_000, 1, None), ("d2", 1000, 7, None)]):
        env.insert(write)
        oracle.insert(write)
        env.settle()
    expected = sorted((row for window, row in oracle.emitted.items() if window not in written), key=repr)
    assert [row[:6] for row in env.results(plan)] == expected
    assert env.record(plan).boundary_version == boundary


def test_a_resumed_stream_handles_what_was_written_meanwhile(env: StreamEnvironment) -> None:
    plan = env.create(counts())
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    env.insert([("d0", 1, 2, None)])
    env.settle()
    assert env.record(plan).state is JobState.PAUSED
    assert [row[:3] for row in env.results(plan)] == [(0, 1, 1)]
    env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    env.settle()
    assert env.record(plan).state is JobState.RUNNING
    assert [row[:3] for row in env.results(plan)] == [(0, 2, 3)]


def test_what_was_written_during_a_pause_can_be_skipped(env: StreamEnvironment) -> None:
    plan = env.create(counts())
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    env.settle()
    env.insert([("d0", 1, 2, None), ("d0", 20_000, 2, None)])
    skip(env.context, plan)
    env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    env.insert([("d0", 2, 4, None), ("d0", 21_000, 8, None)])
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 2, 5), (20_000, 1, 8)]


def test_a_stream_that_fails_stops_with_the_reason_and_the_others_go_on(env: StreamEnvironment) -> None:
    broken, sound = env.create(counts("broken")), env.create(counts("sound"))
    shutil.rmtree(Path(env.tables.uri) / "db" / "out_broken")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    record = env.record(broken)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert "out_broken" in record.reason.message
    assert record.reason.hint
    assert [row[:3] for row in env.results(sound)] == [(0, 1, 1)]


def test_a_new_or_lagging_stream_catches_up(env: StreamEnvironment) -> None:
    first = env.create(counts("first"))
    for place in range(5):
        env.insert([("d0", place, 1, None)])
    env.settle()
    second = env.create(counts("second"))
    env.insert([("d0", 10_000, 1, None)])
    env.settle()
    assert [row[:3] for row in env.results(first)] == [(0, 5, 5), (10_000, 1, 1)]
    assert [row[:3] for row in env.results(second)] == [(10_000, 1, 1)]


def test_batches_are_whole_commits_within_the_bound(tmp_path: Path, spark: SparkSession) -> None:
    with open_environment(tmp_path / "home", lambda: spark, batch_rows=3) as env:
        plan = env.create(counts())
        for place in range(4):
            env.insert([("d0", 2 * place, 1, None), ("d0", 2 * place + 1, 1, None)])
        env.insert([("d1", place, 1, None) for place in range(7)])
        env.settle()
        assert [row[:3] for row in env.results(plan)] == [(0, 15, 15)]
        assert env.record(plan).progress.counters.batches == 5


def test_a_batch_without_results_only_updates_the_catalog(env: StreamEnvironment) -> None:
    plan = env.create("create stream s trigger window_close into out as select _wstart, count(*) n from readings interval(10s)")
    before = env.tables.version(plan.target)
    env.insert([("d0", 0, 1, None)])
    env.settle()
    progress = env.record(plan).progress
    assert env.record(plan).source_version == env.tables.version(plan.source)
    assert progress.watermark == START
    assert env.tables.version(plan.target) == before


def test_a_damaged_state_is_recomputed_exactly(env: StreamEnvironment) -> None:
    options = Options(partition="tbname", ignore_update=True, ignore_expired=True)
    plan, oracle = env.create(options.sql("s")), Oracle(options)
    for write in ([("d0", 0, 1, None)], [("d0", 0, 2, None)], [("d0", 1, 2, None)], [("d0", 0, 7, None)]):
        env.insert(write)
        oracle.insert(write)
        env.settle()
    max_event_time = state_files(env, plan.id)[-1]
    max_event_time.write_bytes(max_event_time.read_bytes()[:-9])
    env.restart()
    env.insert([("d0", 2, 1, None)])
    oracle.insert([("d0", 2, 1, None)])
    env.settle()
    assert [row[:6] for row in env.results(plan)] == oracle.results()
    assert env.record(plan).progress.counters.rows_used == oracle.used
    (event,) = (event for event in env.catalog.events.all("job", plan.id) if event.kind == "STATE_RESTORED")
    assert "changes" in event.message


@pytest.mark.parametrize("trigger", ["at_once", "window_close"])
def test_a_lost_state_is_rebuilt_from_the_stored_rows(env: StreamEnvironment, trigger: str) -> None:
    options = Options(partition="tbname", trigger=trigger, watermark=4000)
    plan, oracle = env.create(options.sql("s")), Oracle(options)
    for write in ([("d0", 0, 1, None)], [("d0", 12_000, 2, None)], [("d1", 13_000, 2, None), ("d0", 3, 1, None)]):
        env.insert(write)
        oracle.insert(write)
        env.settle()
    for file in state_files(env, plan.id):
        file.write_bytes(b"")
    env.restart()
    for write in ([("d0", 12_000, 5, None)], [("d0", 4, 9, None)], [("d2", 40_000, 1, None)]):
        env.insert(write)
        oracle.insert(write)
        env.settle()
    assert [row[:6] for row in env.results(plan)] == oracle.results()
    assert any("stored rows" in event.message for event in env.catalog.events.all("job", plan.id))


def test_a_streams_target_may_be_the_source_of_another(env: StreamEnvironment) -> None:
    env.create(
        "create stream low trigger at_once into lows as select _wstart ts, "
        "count(*) n from readings partition by tbname interval(1s)"
    )
    high = env.create("create stream high trigger at_once into highs as select _wstart ts, sum(n) n from lows interval(10s)")
    env.insert([("d0", 0, 1, None), ("d1", 1, 1, None), ("d0", 5000, 1, None)])
    env.settle()
    assert [row[:2] for row in env.results(high)] == [(0, 3)]


def test_names_and_tags_of_groups_are_those_of_the_statement(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger at_once into out tags(grp varchar(9), more int) subtable(concat('by.', grp)) as "
        "select _wstart, count(*) n from readings partition by cast(g as varchar(9)) grp, g + 1 more interval(10s)"
    )
    env.insert([("d0", 0, 1, None), ("d2", 0, 1, None)])
    env.settle()
    rows = env.results(plan, names=True)
    assert sorted((row[1], row[3], row[4]) for row in rows) == [(1, "1", 2), (1, "2", 3)]
    assert all(row[2].startswith(f"by_{row[3]}_out_") for row in rows)


def test_the_group_of_a_subtable_has_its_uid(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger at_once into out as select _wstart, count(*) n from readings partition by tbname interval(10s)"
    )
    env.insert([("d0", 0, 1, None)])
    env.settle()
    ((_, _, identity),) = env.results(plan)
    assert int(identity) == env.catalog.subtables.get("db", "d0").uid


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_a_group_whose_name_is_taken_stops_a_stream_until_the_name_is_free(
    env: StreamEnvironment, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(target_groups, "MAX_NAMES", limit)
    plan = env.create(
        "create stream s trigger at_once into out subtable(concat('x.', tbname)) as "
        "select _wstart, count(*) n from readings partition by tbname interval(10s)"
    )
    names = {name: f"x_{name}_out_{env.catalog.subtables.get('db', name).uid}" for name in ("d0", "d1", "d2")}
    env.catalog.subtables.add("db", "readings", [names["d1"]])
    for number in range(2):
        env.insert([(name, number, 1, None) for name in names])
    env.settle()
    reason = env.record(plan).reason
    assert env.record(plan).state is JobState.STOPPED
    assert reason is not None
    assert (reason.code, f"table db.{names['d1']} exists already" in reason.message) == ("EXISTS", True)
    assert env.results(plan) == []
    env.catalog.subtables.drop("db", [names["d1"]])
    env.catalog.jobs.set_state(plan.id, env.record(plan).resumed_state)
    env.settle()
    assert sorted(row[1:3] for row in env.results(plan, names=True)) == [(2, name) for name in names.values()]


def test_results_of_a_subtable_that_was_dropped_are_discarded(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger window_close into out as "
        "select _wstart, count(*) n from readings partition by tbname interval(10s)"
    )
    env.insert([("d0", 0, 1, None), ("d1", 0, 1, None)])
    env.settle()
    env.catalog.subtables.drop("db", ["d0"])
    env.insert([("d1", 30_000, 1, None)])
    env.settle()
    uid = env.catalog.subtables.get("db", "d1").uid
    assert [(row[1], int(row[2])) for row in env.results(plan)] == [(1, uid)]


def test_results_go_into_another_database_in_its_precision(env: StreamEnvironment) -> None:
    finer = Database("finer", Precision.NANOSECOND)
    env.catalog.databases.create(finer)
    plan = env.create(
        "create stream s trigger at_once into finer.out as select _wstart, first(ts) f, sum(a) n from readings interval(10s)"
    )
    env.insert([("d0", 10_001, 1, None)])
    env.settle()
    (row,) = env.tables.scan(plan.target).to_pylist()
    assert (row["_wstart"], row["f"]) == ((START + 10_000) * 1_000_000, (START + 10_001) * 1_000_000)


def test_streams_of_a_nanosecond_database_close_to_the_tick(tmp_path: Path, spark: SparkSession) -> None:
    with open_environment(tmp_path / "home", lambda: spark, Precision.NANOSECOND) as env:
        plan = env.create("create stream s trigger window_close into out as select _wstart, count(*) n from readings interval(10s)")
        env.insert([("d0", 0, 1, None), ("d0", 9_999, 1, None)])
        env.settle()
        assert env.results(plan) == []
        env.insert([("d1", 10_000, 1, None)])
        env.settle()
        assert [row[:2] for row in env.results(plan)] == [(START * 1_000_000, 2)]


def test_an_existing_table_takes_results_as_its_columns_want_them(env: StreamEnvironment) -> None:
    columns = (
        Column("ts", DataType(TypeKind.TIMESTAMP)),
        Column("n", DataType(TypeKind.VARCHAR, 20)),
        Column("m", DataType(TypeKind.SMALLINT)),
    )
    old = Table("db", "old", columns, (Column("t", DataType(TypeKind.INT)), Column("u", DataType(TypeKind.INT))))
    env.catalog.tables.create(old)
    env.tables.create(old, env.database)
    plan = env.create(
        "create stream s trigger at_once into old tags(u) as select _wstart, sum(a), "
        "count(*) from readings partition by g u interval(10s)"
    )
    env.insert([("d0", 0, 5, None), ("d2", 0, 7, None)])
    env.settle()
    assert sorted(env.results(plan)) == [(0, "5", 1, None, 1), (0, "7", 1, None, 2)]


def test_a_window_whose_key_value_changes_has_one_row_still(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger at_once into out(ts, top primary key, n) as select "
        "_wstart, max(a), count(*) from readings interval(10s)"
    )
    for write in ([("d0", 0, 1, None)], [("d0", 1, 4, None)], [("d0", 10_000, 4, None)]):
        env.insert(write)
        env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 4, 2), (10_000, 4, 1)]
    env.delete("d0", 1, 1)
    env.delete("d0", 10_000, 10_000)
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 1, 1)]


def test_rows_without_a_window_follow_inserts_updates_and_deletes(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger at_once ignore expired 0 ignore update 0 into out as "
        "select ts, a + 1 up, b from readings where a > 0 partition by tbname"
    )
    env.insert([("d0", 0, 1, "x"), ("d1", 0, 2, "y"), ("d0", 1, 0, "z")])
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 2, "x"), (0, 3, "y")]
    env.insert([("d0", 0, 5, "x")])
    env.insert([("d1", 0, -1, "y"), ("d0", 1, 3, "z")])
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 6, "x"), (1, 4, "z")]
    env.delete("d0", 0, 0)
    env.insert([("d0", 0, 8, "w")])
    env.delete("d0", 1, 1)
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 9, "w")]
    counters = env.record(plan).progress.counters
    assert (counters.rows_in, counters.rows_used, counters.rows_updated, counters.rows_filtered) == (7, 3, 2, 2)


def test_rows_without_a_window_are_never_late(env: StreamEnvironment) -> None:
    plan = env.create("create stream s trigger at_once into out as select ts, a from readings partition by tbname")
    for write in ([("d0", 9000, 1, None)], [("d0", 8000, 2, None)], [("d0", 8000, 3, None)]):
        env.insert(write)
    env.settle()
    assert [row[:2] for row in env.results(plan)] == [(8000, 3), (9000, 1)]
    counters = env.record(plan).progress.counters
    assert (counters.rows_used, counters.rows_updated, counters.rows_expired) == (2, 1, 0)


def test_a_stream_over_one_subtable_reads_only_that_one(env: StreamEnvironment) -> None:
    plan = env.create("create stream s trigger at_once into out as select _wstart, sum(a) n from d1 interval(10s)")
    env.insert([("d0", 0, 1, None), ("d1", 0, 2, None)])
    env.insert([("d0", 90_000, 1, None)])
    env.insert([("d1", 1, 4, None)])
    env.settle()
    assert [row[:2] for row in env.results(plan)] == [(0, 6)]
    assert env.record(plan).progress.counters.rows_in == 2


def test_a_group_named_by_a_tag_follows_the_tag(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger at_once into out tags(g int) as select _wstart, "
        "count(*) n from readings partition by g interval(10s)"
    )
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.tables.tags.upsert(plan.source, pa.table({"tbname": ["d0"], "g": pa.array([7], pa.int32())}))
    env.insert([("d0", 1, 1, None)])
    env.settle()
    assert env.results(plan) == [(0, 1, 1), (0, 1, 7)]


def test_a_dropped_stream_leaves_no_state_and_its_results(env: StreamEnvironment) -> None:
    plan = env.create(counts())
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.catalog.jobs.drop(plan.id)
    env.settle()
    forget(env.context, plan.id)
    assert state_files(env, plan.id) == []
    assert len(env.results(plan)) == 1
