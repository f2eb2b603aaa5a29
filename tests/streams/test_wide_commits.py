"""Large commits that are computed by ranges of series: by Spark's tasks, or one after the other in the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.failpoints import FailpointError, armed
from headrace.storage.object_store import file_system
from headrace.streams.runner import StreamRunner, state_store
from headrace.streams.sources import spill
from headrace.streams.wide.commits import WideCommits
from headrace.streams.wide.dispatch import LargeCommitProcessor
from headrace.streams.wide.staging import discard_leftovers
from headrace.streams.windows.change_batch import Changes
from tests.streams import test_windows
from tests.streams.effort import EXAMPLES, drawn
from tests.streams.environment import START, Row, StreamEnvironment, open_environment, open_profile
from tests.streams.scenarios import SCENARIOS, Scenario, limit_shrinking, property_settings
from tests.streams.state_files import remove_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.streams.definition.define import StreamPlan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]

CLAUSES = ("interval(10s)", "session(ts, 2s)", "state_window(b)", "event_window start with a > 5 end with a < 3", "count_window(3)")
SERIES = tuple(f"d{number}" for number in range(3))


class Outcomes:
    """Counts the commits that tasks have computed, and those that they have left to the driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wide = self.near = 0
        process, outcomes = WideCommits.process, self

        def counted(commits: WideCommits, *arguments: Any) -> Any:
            result = process(commits, *arguments)
            outcomes.wide += result is not None
            outcomes.near += result is None
            return result

        monkeypatch.setattr(WideCommits, "process", counted)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Outcomes:
    return Outcomes(monkeypatch)


@pytest.fixture
def wide(tmp_path: Path, spark: SparkSession) -> Iterator[StreamEnvironment]:
    with open_profile("wide", tmp_path / "home", spark) as env:
        yield env


def readings(first: int, seconds: int, *, step: int = 500) -> list[Row]:
    """Return rows of all series, with states that change now and then."""
    instants = range(first, first + 1000 * seconds, step)
    return [(name, ts, (ts // 700 + int(name[1:])) % 10, "xy"[ts // 3300 % 2]) for name in SERIES for ts in instants]


def create(env: StreamEnvironment, clause: str, options: str = "trigger at_once ignore expired 1 watermark 1d") -> StreamPlan:
    return env.create(
        f"create stream s{len(env.created)} {options} into t{len(env.created)} as "
        f"select _wstart, count(*) n, avg(a) m, max(b) b from readings partition by tbname {clause}"
    )


class NoReader:
    """A reader of a stream that only starts."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def staged_files(env: StreamEnvironment) -> list[str]:
    system, root = file_system(env.context.state_uri)
    infos = system.get_file_info(pafs.FileSelector(root, allow_not_found=True, recursive=True))
    return [info.path for info in infos if info.is_file and "/staged/" in info.path]


@pytest.mark.drawn(2)
def test_tasks_and_driver_compute_the_same(tmp_path: Path, spark: SparkSession, outcomes: Outcomes) -> None:
    """Commits continue, close and leave windows of earlier ones. The last has rows of one series, and closes those of others."""
    streams = [(clause, trigger) for clause in CLAUSES for trigger in drawn(["at_once", "window_close"], clause)]
    found: list[Any] = []
    wide: dict[str, Any] = {"driver_rows": 0, "batch_rows": 1, "wide_commit_rows": 0}
    for settings in (wide, {}):
        with open_environment(tmp_path / str(len(found)), lambda: spark, **settings) as env:
            plans = [create(env, clause, f"trigger {trigger} ignore expired 1 watermark 3s") for clause, trigger in streams]
            for first, seconds in ((0, 35), (35_000, 4), (60_000, 30)):
                env.insert(readings(first, seconds))
                env.settle()
            env.insert([("d1", 200_000, 1, "x")])
            env.settle()
            records = [env.record(plan) for plan in plans]
            assert [record.reason for record in records] == [None] * len(plans)
            found.append([(env.results(plan, names=True), record.progress) for plan, record in zip(plans, records, strict=True)])
            assert staged_files(env) == []
    for (results, progress), (near_results, near_progress) in zip(*found, strict=True):
        assert results == near_results
        assert (progress.counters, progress.watermark) == (near_progress.counters, near_progress.watermark)
    assert (outcomes.wide, outcomes.near) == (4 * len(streams), 0)


def test_only_rows_that_pass_where_move_the_watermark(wide: StreamEnvironment, outcomes: Outcomes) -> None:
    plan = wide.create(
        "create stream s trigger window_close into t as "
        "select _wstart, count(*) n from readings where a < 5 partition by tbname interval(10s)"
    )
    wide.insert([("d0", 1000, 1, "x"), ("d0", 11_000, 2, "x"), ("d1", 50_000, 9, "x")])
    wide.settle()
    assert [row[:2] for row in wide.results(plan)] == [(0, 1)]
    assert wide.record(plan).progress.watermark == START + 11_000
    assert outcomes.wide == 1


def test_a_window_with_new_rows_replaces_its_result(wide: StreamEnvironment, outcomes: Outcomes) -> None:
    plan = create(wide, "interval(10s)")
    wide.insert([("d0", 1000, 1, "x"), ("d1", 1000, 1, "x")])
    wide.settle()
    wide.insert([("d0", 2000, 9, "x"), ("d2", 2000, 2, "x")])
    wide.settle()
    assert sorted(row[:3] for row in wide.results(plan)) == [(0, 1, 1.0), (0, 1, 2.0), (0, 2, 5.0)]
    assert outcomes.wide == 2


def test_a_commit_with_late_rows_is_divided_by_series(wide: StreamEnvironment, outcomes: Outcomes) -> None:
    plan = create(wide, "state_window(b)")
    wide.insert([("d0", 1000, 1, "x"), ("d0", 5000, 1, "y"), ("d1", 1000, 1, "x")])
    wide.settle()
    wide.insert([("d0", 3000, 1, "x"), ("d1", 2000, 1, "x")])
    wide.settle()
    assert (outcomes.wide, outcomes.near) == (1, 1)
    assert sorted((row[0], row[1]) for row in wide.results(plan)) == [(1000, 2), (1000, 2), (5000, 1)]
    assert staged_files(wide) == []


def test_updates_and_deletes_are_divided_by_series(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is computed with the state of its series, and none without its changes closes windows too early or too late."""
    sizes: list[int] = []
    process = LargeCommitProcessor._process_part

    def recorded(commits: LargeCommitProcessor, state: Any, changes: Changes, staged: Any) -> Any:
        sizes.append(changes.rows.num_rows)
        return process(commits, state, changes, staged)

    monkeypatch.setattr(LargeCommitProcessor, "_process_part", recorded)
    monkeypatch.setattr(spill, "PART_ROWS", 20)
    found: list[Any] = []
    large: dict[str, Any] = {"driver_rows": 0, "batch_rows": 1}
    for settings in (large, {}):
        with open_environment(tmp_path / str(len(found)), lambda: spark, **settings) as env:
            options = "trigger window_close ignore expired 1 ignore update 0 watermark 3s"
            plans = [create(env, clause, options) for clause in CLAUSES if not clause.startswith("count")]
            env.insert(readings(0, 35))
            env.insert([(name, ts, 9, "z") for name, ts, *_ in readings(4000, 12)] + [("d2", 55_000, 1, "x")])
            env.delete("d0", 2000, 9000)
            env.delete("d1", 50_000, 60_000)
            env.settle()
            assert [env.record(plan).reason for plan in plans] == [None] * len(plans)
            found.append([(env.results(plan, names=True), env.record(plan).progress.counters) for plan in plans])
            assert staged_files(env) == []
    assert [results for results, _ in found[0]] == [results for results, _ in found[1]]
    uncounted = [[replace(counters, batches=0, rows_out=0) for _, counters in one] for one in found]
    assert uncounted[0] == uncounted[1]
    assert len(sizes) > 4, "both windows that depend on the order of rows are computed in parts"


FAILPOINTS = ("streams.wide.staged", "streams.evaluated", "streams.state.written", "storage.commit", "storage.committed")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_crash_neither_loses_nor_repeats_results(wide: StreamEnvironment, failpoint: str) -> None:
    plan = create(wide, "interval(10s)")
    wide.insert(readings(0, 30))
    with armed(f"{failpoint}:1:raise"), pytest.raises(FailpointError):
        wide.settle()
    wide.restart_after_failure()
    wide.insert(readings(30_000, 10))
    wide.settle()
    assert wide.record(plan).reason is None
    assert [row[:2] for row in wide.results(plan)] == sorted([(start, 20) for start in range(0, 40_000, 10_000)] * 3, key=repr)
    assert staged_files(wide) == []


WAYS = {
    "shares": "select _wstart, count(*) n, sum(a) total from readings interval(1s)",
    "groups": "select _wstart, count(*) n, sum(a) total from readings partition by g session(ts, 600a)",
    "series": "select _wstart, count(*) n, sum(a) total from readings partition by tbname state_window(b)",
    "rows": "select ts, a + 1 more, b from readings partition by tbname",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("way", WAYS)
def test_late_updated_and_deleted_rows_of_large_commits_survive_crashes(wide: StreamEnvironment, way: str) -> None:
    """Every commit is computed by a driver that dies, and by the next one."""
    plan = wide.create(f"create stream s trigger at_once ignore expired 0 ignore update 0 into t as {WAYS[way]}")
    late = [(name, ts + 250, 7, "x") for name, ts, *_ in readings(0, 20, step=4000)]
    updated = [(name, ts, 0, "y") for name, ts, *_ in readings(5000, 12)]
    for rows, point in ((readings(0, 30), "evaluated"), (late, "state.written"), (updated + late, "target.committed")):
        wide.insert(rows)
        with armed(f"streams.{point}:1:raise"), pytest.raises(FailpointError):
            wide.settle()
        wide.restart_after_failure()
    wide.delete("d0", 2000, 9000)
    with armed("storage.commit:1:raise"), pytest.raises(FailpointError):
        wide.settle()
    wide.restart_after_failure()
    wide.settle()
    assert wide.record(plan).reason is None
    assert sorted((row[:3] for row in wide.results(plan)), key=repr) == wide.query(WAYS[way])
    assert staged_files(wide) == []


def test_what_a_killed_driver_has_staged_is_deleted_when_the_stream_starts(wide: StreamEnvironment) -> None:
    plan = create(wide, "interval(10s)")
    wide.restart(epoch=2)
    wide.insert(readings(0, 30))
    with armed("streams.wide.staged:1:raise"), pytest.raises(FailpointError):
        wide.settle()
    wide.restart_after_failure()
    assert staged_files(wide)
    discard_leftovers(replace(wide.context, epoch=1), plan.id)
    assert staged_files(wide), "an older driver leaves what newer ones stage"
    StreamRunner(wide.context, wide.record(plan), NoReader()).restore()
    assert staged_files(wide) == []


def test_a_stream_with_more_windows_than_the_driver_holds_is_computed_by_tasks(
    tmp_path: Path, spark: SparkSession, outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.streams.windows.large_commits.MAX_WINDOWS", 5)
    with open_environment(tmp_path / "home", lambda: spark, driver_rows=0) as env:
        plan = create(env, "interval(10s)")
        env.insert(readings(0, 60))
        env.settle()
        assert (len(env.results(plan)), outcomes.wide) == (18, 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[StreamEnvironment]:
    with open_profile("wide", tmp_path_factory.mktemp("wide"), spark) as env:
        yield env


ONE_OF_EACH = st.tuples(*(test_windows.streams(kind).map(lambda drawn: drawn[0]) for kind in test_windows.SHAPES)).map(list)


@pytest.mark.drawn(2)
@property_settings(2)
@given(scenario=SCENARIOS, tried=ONE_OF_EACH)
@limit_shrinking
def test_streams_equal_their_queries(home: StreamEnvironment, scenario: Scenario, tried: list[test_windows.Stream]) -> None:
    test_windows.check(home, scenario, tried)


def test_a_replayed_commit_leaves_no_staged_files(wide: StreamEnvironment, outcomes: Outcomes) -> None:
    """The target has the results of a micro-batch whose checkpoint is lost, so that only its state is computed again."""
    plan = create(wide, "interval(10s)")
    for first in (0, 30_000):
        wide.insert(readings(first, 25))
        wide.settle()
    remove_state(state_store(wide.context, plan.id), "*2-*.state")
    wide.restart()
    wide.insert(readings(60_000, 10))
    wide.settle()
    assert outcomes.wide == 4
    assert sorted(row[1] for row in wide.results(plan)) == [10, 10, 10, 10, 10, 10, *[20] * 15]
    assert staged_files(wide) == []
