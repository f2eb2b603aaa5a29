"""A stream's life: where it begins, what it takes with it over pauses, failures and damage, and where its results go."""

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
from tests.streams.house import START, House, house
from tests.streams.oracle import Options, Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = "trigger at_once into {target} as select _wstart, count(*) n, sum(a) total from readings interval(10s)"


def counts(name: str = "s") -> str:
    return f"create stream {name} " + COUNTS.format(target=f"out_{name}")


def tens(built: House, sql: str) -> list[tuple[object, ...]]:
    plan = built.create(sql)
    built.settle()
    return built.results(plan)


def state_files(built: House, job_id: str) -> list[Path]:
    return sorted(Path(state_store(built.context, job_id).folder).glob("*.state"))


def test_a_stream_without_history_says_nothing_of_windows_that_nothing_touches(built: House) -> None:
    built.insert([("d0", 0, 1, None), ("d0", 15_000, 2, None)])
    assert tens(built, counts()) == []


def test_a_window_from_before_the_stream_is_whole_once_it_is_touched(built: House) -> None:
    built.insert([("d0", 0, 1, None), ("d0", 15_000, 2, None)])
    plan = built.create(counts())
    built.insert([("d1", 16_000, 4, None)])
    built.settle()
    built.insert([("d1", 17_000, 8, None)])
    built.settle()
    assert [row[:3] for row in built.results(plan)] == [(10_000, 3, 14)]


def test_a_stream_goes_on_from_a_history_as_if_it_had_been_there(built: House) -> None:
    options = Options(trigger="window_close", watermark=3000, partition="tbname", ignore_expired=True)
    oracle = Oracle(options)
    history = [[("d0", 0, 1, None), ("d1", 4000, 2, None)], [("d0", 15_000, 2, None), ("d1", 13_000, 3, None)]]
    for write in history:
        built.insert(write)
        oracle.insert(write)
    plan = built.create(options.sql("s"))
    boundary = built.tables.version(plan.source)
    activate(built.context, plan, {plan.source_id: boundary})
    written = set(oracle.emitted)
    for write in ([("d0", 16_000, 5, None)], [("d1", 12_000, 5, None)], [("d0", 40_000, 1, None), ("d2", 1000, 7, None)]):
        built.insert(write)
        oracle.insert(write)
        built.settle()
    expected = sorted((row for window, row in oracle.emitted.items() if window not in written), key=repr)
    assert [row[:6] for row in built.results(plan)] == expected
    assert built.record(plan).boundary_version == boundary


def test_a_paused_stream_takes_up_what_was_written_meanwhile(built: House) -> None:
    plan = built.create(counts())
    built.insert([("d0", 0, 1, None)])
    built.settle()
    built.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    built.insert([("d0", 1, 2, None)])
    built.settle()
    assert built.record(plan).state is JobState.PAUSED
    assert [row[:3] for row in built.results(plan)] == [(0, 1, 1)]
    built.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    built.settle()
    assert built.record(plan).state is JobState.RUNNING
    assert [row[:3] for row in built.results(plan)] == [(0, 2, 3)]


def test_what_was_written_during_a_pause_can_be_skipped(built: House) -> None:
    plan = built.create(counts())
    built.insert([("d0", 0, 1, None)])
    built.settle()
    built.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    built.settle()
    built.insert([("d0", 1, 2, None), ("d0", 20_000, 2, None)])
    skip(built.context, plan)
    built.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    built.insert([("d0", 2, 4, None), ("d0", 21_000, 8, None)])
    built.settle()
    assert [row[:3] for row in built.results(plan)] == [(0, 2, 5), (20_000, 1, 8)]


def test_a_stream_that_fails_stops_with_the_reason_and_the_others_go_on(built: House) -> None:
    broken, sound = built.create(counts("broken")), built.create(counts("sound"))
    shutil.rmtree(Path(built.tables.uri) / "db" / "out_broken")
    built.insert([("d0", 0, 1, None)])
    built.settle()
    record = built.record(broken)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert "out_broken" in record.reason.message
    assert record.reason.hint
    assert [row[:3] for row in built.results(sound)] == [(0, 1, 1)]


def test_a_stream_that_comes_later_or_lags_catches_up_by_itself(built: House) -> None:
    first = built.create(counts("first"))
    for place in range(5):
        built.insert([("d0", place, 1, None)])
    built.settle()
    second = built.create(counts("second"))
    built.insert([("d0", 10_000, 1, None)])
    built.settle()
    assert [row[:3] for row in built.results(first)] == [(0, 5, 5), (10_000, 1, 1)]
    assert [row[:3] for row in built.results(second)] == [(10_000, 1, 1)]


def test_batches_are_whole_commits_within_the_bound(tmp_path: Path, spark: SparkSession) -> None:
    with house(tmp_path / "home", lambda: spark, batch_rows=3) as built:
        plan = built.create(counts())
        for place in range(4):
            built.insert([("d0", 2 * place, 1, None), ("d0", 2 * place + 1, 1, None)])
        built.insert([("d1", place, 1, None) for place in range(7)])
        built.settle()
        assert [row[:3] for row in built.results(plan)] == [(0, 15, 15)]
        assert built.record(plan).progress.counters.batches == 5


def test_a_batch_without_results_moves_the_catalog_alone(built: House) -> None:
    plan = built.create("create stream s trigger window_close into out as select _wstart, count(*) n from readings interval(10s)")
    before = built.tables.version(plan.target)
    built.insert([("d0", 0, 1, None)])
    built.settle()
    progress = built.record(plan).progress
    assert built.record(plan).source_version == built.tables.version(plan.source)
    assert progress.watermark == START
    assert built.tables.version(plan.target) == before


def test_a_damaged_state_is_worked_out_again_exactly(built: House) -> None:
    options = Options(partition="tbname", ignore_update=True, ignore_expired=True)
    plan, oracle = built.create(options.sql("s")), Oracle(options)
    for write in ([("d0", 0, 1, None)], [("d0", 0, 2, None)], [("d0", 1, 2, None)], [("d0", 0, 7, None)]):
        built.insert(write)
        oracle.insert(write)
        built.settle()
    max_event_time = state_files(built, plan.id)[-1]
    max_event_time.write_bytes(max_event_time.read_bytes()[:-9])
    built.restart()
    built.insert([("d0", 2, 1, None)])
    oracle.insert([("d0", 2, 1, None)])
    built.settle()
    assert [row[:6] for row in built.results(plan)] == oracle.results()
    assert built.record(plan).progress.counters.rows_used == oracle.used
    (event,) = (event for event in built.catalog.events.all("job", plan.id) if event.kind == "STATE_RESTORED")
    assert "changes" in event.message


@pytest.mark.parametrize("trigger", ["at_once", "window_close"])
def test_a_lost_state_is_rebuilt_from_the_stored_rows(built: House, trigger: str) -> None:
    options = Options(partition="tbname", trigger=trigger, watermark=4000)
    plan, oracle = built.create(options.sql("s")), Oracle(options)
    for write in ([("d0", 0, 1, None)], [("d0", 12_000, 2, None)], [("d1", 13_000, 2, None), ("d0", 3, 1, None)]):
        built.insert(write)
        oracle.insert(write)
        built.settle()
    for file in state_files(built, plan.id):
        file.write_bytes(b"")
    built.restart()
    for write in ([("d0", 12_000, 5, None)], [("d0", 4, 9, None)], [("d2", 40_000, 1, None)]):
        built.insert(write)
        oracle.insert(write)
        built.settle()
    assert [row[:6] for row in built.results(plan)] == oracle.results()
    assert any("stored rows" in event.message for event in built.catalog.events.all("job", plan.id))


def test_a_streams_target_may_be_the_source_of_another(built: House) -> None:
    built.create(
        "create stream low trigger at_once into lows as select _wstart ts, "
        "count(*) n from readings partition by tbname interval(1s)"
    )
    high = built.create("create stream high trigger at_once into highs as select _wstart ts, sum(n) n from lows interval(10s)")
    built.insert([("d0", 0, 1, None), ("d1", 1, 1, None), ("d0", 5000, 1, None)])
    built.settle()
    assert [row[:2] for row in built.results(high)] == [(0, 3)]


def test_names_and_tags_of_groups_are_those_of_the_statement(built: House) -> None:
    plan = built.create(
        "create stream s trigger at_once into out tags(grp varchar(9), more int) subtable(concat('by.', grp)) as "
        "select _wstart, count(*) n from readings partition by cast(g as varchar(9)) grp, g + 1 more interval(10s)"
    )
    built.insert([("d0", 0, 1, None), ("d2", 0, 1, None)])
    built.settle()
    rows = built.results(plan, names=True)
    assert sorted((row[1], row[3], row[4]) for row in rows) == [(1, "1", 2), (1, "2", 3)]
    assert all(row[2].startswith(f"by_{row[3]}_out_") for row in rows)


def test_the_group_of_a_subtable_has_its_uid(built: House) -> None:
    plan = built.create(
        "create stream s trigger at_once into out as select _wstart, count(*) n from readings partition by tbname interval(10s)"
    )
    built.insert([("d0", 0, 1, None)])
    built.settle()
    ((_, _, identity),) = built.results(plan)
    assert int(identity) == built.catalog.subtables.get("db", "d0").uid


def test_results_of_a_group_whose_name_is_taken_are_discarded_and_said_so(built: House) -> None:
    plan = built.create(
        "create stream s trigger at_once into out subtable('d0') as select _wstart, count(*) n from readings interval(10s)"
    )
    built.insert([("d0", 0, 1, None)])
    built.settle()
    assert built.results(plan) == []
    assert built.record(plan).state is JobState.RUNNING
    assert any(event.kind == "DISCARDED" for event in built.catalog.events.all("job", plan.id))


def test_results_go_into_another_database_in_its_precision(built: House) -> None:
    finer = Database("finer", Precision.NANOSECOND)
    built.catalog.databases.create(finer)
    plan = built.create(
        "create stream s trigger at_once into finer.out as select _wstart, first(ts) f, sum(a) n from readings interval(10s)"
    )
    built.insert([("d0", 10_001, 1, None)])
    built.settle()
    (row,) = built.tables.scan(plan.target, finer).to_pylist()
    assert (row["_wstart"], row["f"]) == ((START + 10_000) * 1_000_000, (START + 10_001) * 1_000_000)


def test_streams_of_a_nanosecond_database_close_to_the_tick(tmp_path: Path, spark: SparkSession) -> None:
    with house(tmp_path / "home", lambda: spark, Precision.NANOSECOND) as built:
        plan = built.create(
            "create stream s trigger window_close into out as select _wstart, count(*) n from readings interval(10s)"
        )
        built.insert([("d0", 0, 1, None), ("d0", 9_999, 1, None)])
        built.settle()
        assert built.results(plan) == []
        built.insert([("d1", 10_000, 1, None)])
        built.settle()
        assert [row[:2] for row in built.results(plan)] == [(START * 1_000_000, 2)]


def test_an_existing_table_takes_results_as_its_columns_want_them(built: House) -> None:
    columns = (
        Column("ts", DataType(TypeKind.TIMESTAMP)),
        Column("n", DataType(TypeKind.VARCHAR, 20)),
        Column("m", DataType(TypeKind.SMALLINT)),
    )
    old = Table("db", "old", columns, (Column("t", DataType(TypeKind.INT)), Column("u", DataType(TypeKind.INT))))
    built.catalog.tables.create(old)
    built.tables.create(old, built.database)
    plan = built.create(
        "create stream s trigger at_once into old tags(u) as select _wstart, sum(a), "
        "count(*) from readings partition by g u interval(10s)"
    )
    built.insert([("d0", 0, 5, None), ("d2", 0, 7, None)])
    built.settle()
    assert sorted(built.results(plan)) == [(0, "5", 1, None, 1), (0, "7", 1, None, 2)]


def test_a_window_whose_key_value_changes_has_one_row_still(built: House) -> None:
    plan = built.create(
        "create stream s trigger at_once into out(ts, top primary key, n) as select "
        "_wstart, max(a), count(*) from readings interval(10s)"
    )
    for write in ([("d0", 0, 1, None)], [("d0", 1, 4, None)], [("d0", 10_000, 4, None)]):
        built.insert(write)
        built.settle()
    assert [row[:3] for row in built.results(plan)] == [(0, 4, 2), (10_000, 4, 1)]
    built.delete("d0", 1, 1)
    built.delete("d0", 10_000, 10_000)
    built.settle()
    assert [row[:3] for row in built.results(plan)] == [(0, 1, 1)]


def test_rows_without_a_window_follow_inserts_updates_and_deletes(built: House) -> None:
    plan = built.create(
        "create stream s trigger at_once ignore expired 0 ignore update 0 into out as "
        "select ts, a + 1 up, b from readings where a > 0 partition by tbname"
    )
    built.insert([("d0", 0, 1, "x"), ("d1", 0, 2, "y"), ("d0", 1, 0, "z")])
    built.settle()
    assert [row[:3] for row in built.results(plan)] == [(0, 2, "x"), (0, 3, "y")]
    built.insert([("d0", 0, 5, "x")])
    built.insert([("d1", 0, -1, "y"), ("d0", 1, 3, "z")])
    built.settle()
    assert [row[:3] for row in built.results(plan)] == [(0, 6, "x"), (1, 4, "z")]
    built.delete("d0", 0, 0)
    built.insert([("d0", 0, 8, "w")])
    built.delete("d0", 1, 1)
    built.settle()
    assert [row[:3] for row in built.results(plan)] == [(0, 9, "w")]
    counters = built.record(plan).progress.counters
    assert (counters.rows_in, counters.rows_used, counters.rows_filtered) == (7, 5, 2)


def test_rows_without_a_window_never_come_too_late(built: House) -> None:
    plan = built.create("create stream s trigger at_once into out as select ts, a from readings partition by tbname")
    for write in ([("d0", 9000, 1, None)], [("d0", 8000, 2, None)], [("d0", 8000, 3, None)]):
        built.insert(write)
    built.settle()
    assert [row[:2] for row in built.results(plan)] == [(8000, 3), (9000, 1)]
    assert built.record(plan).progress.counters.rows_used == 3


def test_a_stream_over_one_subtable_sees_that_one_alone(built: House) -> None:
    plan = built.create("create stream s trigger at_once into out as select _wstart, sum(a) n from d1 interval(10s)")
    built.insert([("d0", 0, 1, None), ("d1", 0, 2, None)])
    built.insert([("d0", 90_000, 1, None)])
    built.insert([("d1", 1, 4, None)])
    built.settle()
    assert [row[:2] for row in built.results(plan)] == [(0, 6)]
    assert built.record(plan).progress.counters.rows_in == 2


def test_a_group_named_by_a_tag_follows_the_tag(built: House) -> None:
    plan = built.create(
        "create stream s trigger at_once into out tags(g int) as select _wstart, "
        "count(*) n from readings partition by g interval(10s)"
    )
    built.insert([("d0", 0, 1, None)])
    built.settle()
    built.tables.upsert_tags(plan.source, pa.table({"tbname": ["d0"], "g": pa.array([7], pa.int32())}))
    built.insert([("d0", 1, 1, None)])
    built.settle()
    assert built.results(plan) == [(0, 1, 1), (0, 1, 7)]


def test_a_dropped_stream_leaves_no_state_and_its_results(built: House) -> None:
    plan = built.create(counts())
    built.insert([("d0", 0, 1, None)])
    built.settle()
    built.catalog.jobs.drop(plan.id)
    built.settle()
    forget(built.context, plan.id)
    assert state_files(built, plan.id) == []
    assert len(built.results(plan)) == 1
