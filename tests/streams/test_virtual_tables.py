"""A stream over a virtual table equals its query, whatever is written to the origins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.model.failpoints import FailpointError, armed
from headrace.streams.runner import state_store
from tests.streams.effort import EXAMPLES, drawn, drawn_profiles
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, StreamEnvironment, open_profile, profile_of
from tests.streams.scenarios import limit_shrinking, property_settings
from tests.streams.test_windows import STREAMS_BY_PROFILE
from tests.streams.virtual import SUBTABLES, WRITES, VirtualTables, Write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 40 * EXAMPLES))]

QUERIES = {
    "tumbling": "select _wstart, count(*) n, sum(a) sa, max(v) mv from devices interval(10s)",
    "by_name": "select _wstart, tbname name, count(*) n, last(b) lb from devices partition by tbname interval(10s) sliding(5s)",
    "of_one": "select _wstart, count(*) n, sum(v) sv from v1 where a > 0 interval(10s)",
    "one_column": "select _wstart, count(*) n, count(v) nv from v0 interval(10s)",
    "sessions": "select _wstart, count(*) n, sum(v) sv from devices partition by tbname session(ts, 3s)",
    "states": "select _wstart, count(*) n, last_row(b) lb from v0 state_window(a)",
    "events": "select _wstart, count(*) n from devices partition by tbname event_window start with a > 1 end with v > 2",
    "by_tag": "select _wstart, loc place, avg(a) aa from devices partition by loc interval(10s)",
    "rows": "select ts, a + v total from devices where v > 0 partition by tbname",
}
SHORT = [
    ("readings", [("d0", 0, 1, "x"), ("d1", 500, 2, None)]),
    ("pump", [(0, 3), (1000, 4)]),
    ("settle", None),
    ("pump", [(0, 1), (500, 5), (12_000, 1)]),
    ("kill", "streams.target.committed"),
    ("delete", ("d0", 0, 0)),
    ("readings", [("d1", 0, 4, "y"), ("d0", 25_000, 1, None)]),
    ("restart", None),
]


@pytest.fixture(scope="module", params=drawn_profiles("virtual tables"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    with open_profile(request.param, tmp_path_factory.mktemp("virtual"), spark) as env:
        yield env


@pytest.fixture
def devices(env: StreamEnvironment) -> Iterator[VirtualTables]:
    """Virtual tables in a database of their own."""
    with env.new_database(SUBTABLES) as own:
        tables = VirtualTables(own)
        tables.create()
        yield tables


@pytest.mark.drawn(2)
@property_settings(3)
@given(
    writes=st.lists(WRITES, min_size=3, max_size=12),
    names=st.lists(st.sampled_from(sorted(QUERIES)), min_size=3, max_size=4, unique=True),
)
@example(SHORT, sorted(QUERIES))
@limit_shrinking
def test_a_stream_equals_its_query(home: StreamEnvironment, writes: list[Write], names: list[str]) -> None:
    names = drawn(names, "streams over virtual tables", STREAMS_BY_PROFILE[profile_of(home)])
    with home.new_database(SUBTABLES) as env:
        tables = VirtualTables(env)
        tables.create()
        option = "trigger at_once ignore expired 0"
        plans = {name: env.create(f"create stream {name} {option} into out_{name} as {QUERIES[name]}") for name in names}
        for write in writes:
            tables.apply(write)
        env.settle()
        for name, plan in plans.items():
            assert tables.results(plan) == tables.query(QUERIES[name]), (name, env.record(plan).reason)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("point", MICRO_BATCH_FAILPOINTS)
def test_a_driver_that_dies_anywhere_is_followed_by_one_that_continues(devices: VirtualTables, point: str) -> None:
    query = QUERIES["tumbling"]
    plan = devices.env.create(f"create stream s trigger at_once ignore expired 0 into out as {query}")
    devices.apply(("readings", [("d0", 0, 1, None), ("d1", 500, 2, None)]))
    devices.env.settle()
    devices.apply(("pump", [(0, 7)]))
    devices.apply(("readings", [("d0", 11_000, 1, None)]))
    with armed(f"{point}:1:raise"), pytest.raises(FailpointError):
        devices.env.settle()
    devices.env.restart()
    devices.apply(("readings", [("d1", 11_000, 5, None), ("d1", 12_000, 5, None)]))
    devices.env.settle()
    assert devices.results(plan) == devices.query(query)


def test_a_micro_batch_without_checkpoint_is_repeated_as_it_was(devices: VirtualTables) -> None:
    env, query = devices.env, "select _wstart, count(*) n, sum(a) sa, sum(v) sv from devices interval(10s)"
    plan = env.create(f"create stream s watermark 5s into out as {query}")
    devices.apply(("readings", [("d0", 0, 1, None)]))
    env.settle()
    devices.apply(("pump", [(9_000, 1), (21_000, 2)]))
    devices.apply(("readings", [("d0", 500, 1, None), ("d1", 30_000, 2, None)]))
    env.settle()
    before = env.record(plan).progress
    assert before.position is not None
    assert set(before.position.offsets) == set(plan.source_ids)
    assert len(plan.source_ids) == 2
    env.restart()
    store = state_store(env.context, plan.id)
    (checkpoint,) = Path(store.folder).glob(f"{store.batches()[-1]:020d}-*.state")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-3])
    devices.apply(("pump", [(50_000, 1)]))
    env.settle()
    after = env.record(plan).progress
    assert after.position is not None
    assert after.position.batch == before.position.batch + 1
    (event,) = (event for event in env.catalog.events.all("job", plan.id) if event.kind == "STATE_RESTORED")
    assert "changes since" in event.message
    assert (after.counters.rows_expired, before.counters.rows_expired) == (0, 0)
    closed = [row for row in devices.query(query) if row[0] < 40_000]
    assert [row for row in devices.results(plan) if row[0] < 40_000] == closed


def test_the_lag_is_that_of_the_oldest_commit_of_any_origin(devices: VirtualTables) -> None:
    env = devices.env
    plan = env.create(f"create stream s trigger at_once into out as {QUERIES['tumbling']}")
    env.settle()
    assert env.lag_ms(plan) == 0
    devices.apply(("pump", [(0, 1)]))
    committed = env.tables.changes.committed_at(devices.pump, env.tables.version(devices.pump))
    assert committed is not None
    lag = env.lag_ms(plan)
    assert lag == max(0, env.context.clock.now() - committed)
    env.settle()
    assert env.lag_ms(plan) == 0


def test_a_stream_keeps_the_origins_and_subtables_that_it_began_with(devices: VirtualTables) -> None:
    env, query = devices.env, "select _wstart, count(*) n, sum(a) sa from devices partition by tbname interval(10s)"
    plan = env.create(f"create stream s trigger at_once ignore expired 0 into out as {query}")
    devices.apply(("readings", [("d0", 0, 1, None), ("d1", 0, 10, None)]))
    env.settle()
    database = env.database.name
    for series in ("v0", "v1"):
        env.catalog.virtual_tables.set_origin(database, series, "a", None)
    assert devices.query(query) == []
    env.restart()
    devices.apply(("readings", [("d0", 500, 2, None), ("d1", 500, 20, None)]))
    env.settle()
    assert devices.results(plan) == [(0, 2, 3), (0, 2, 30)]
