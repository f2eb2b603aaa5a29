"""FILL in streams: the gaps between the windows of the target are filled at every moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.compute import explain
from headrace.model.clock import ManualClock
from headrace.model.failpoints import FailpointError, armed, calling
from headrace.model.tables import Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import BIGINT, TIMESTAMP, DataType, TypeKind
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling import emitted, filler
from tests.streams.effort import EXAMPLES, drawn, drawn_profiles
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, START, StreamEnvironment, open_profile, profile_of
from tests.streams.filled import MODES, FillOptions, filled_results
from tests.streams.oracle import Oracle
from tests.streams.scenarios import (
    SCENARIOS,
    Scenario,
    apply_action,
    count_examples,
    limit_shrinking,
    property_settings,
)
from tests.streams.test_windows import STREAMS_BY_PROFILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]

LATE = "create stream s trigger at_once ignore expired 0 into t as select _wstart ws, {} from readings interval(1s) fill(prev)"
RESTART = "restart"
INT = DataType(TypeKind.INT)
DAY = 86_400_000
OPTIONS = st.builds(
    FillOptions,
    trigger=st.sampled_from(["at_once", "window_close"]),
    watermark=st.sampled_from([0, 3000]),
    ignore_expired=st.sampled_from([False, False, True]),
    ignore_update=st.sampled_from([False, False, True]),
    partition=st.sampled_from(["", "tbname", "tbname", "g", "b"]),
    where=st.sampled_from([None, None, 3]),
    length=st.sampled_from([1000, 1000, 3000]),
    sliding=st.sampled_from([None, None, 500]),
    fill=st.sampled_from(MODES),
)


MAX_CACHED = {"kernels": emitted.MAX_CACHED_PER_GROUP, "pieces": 2, "spark": 2}
"""How many neighbors of a gap are in memory, by profile: all of these small examples, or so few that most are read."""


@pytest.fixture(scope="module", params=drawn_profiles("filling"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[tuple[StreamEnvironment, int]]:
    """An environment of each drawn profile for all examples; each example gets a new database in it."""
    with open_profile(request.param, tmp_path_factory.mktemp("filling"), spark) as env:
        yield env, MAX_CACHED[request.param]


def writes(*actions: Any) -> Scenario:
    """Return a scenario of one lane, with a micro-batch after each write."""
    return Scenario([list(actions)], [True] * len(actions))


def inserted(*instants: int, a: int = 4) -> tuple[str, Any]:
    return "insert", [("d0", instant, a, "x") for instant in instants]


SPLIT = writes(inserted(0, 9000), inserted(4000, a=5), ("delete", ("d0", 4000, 0)), inserted(4000, a=6), inserted(4000, a=7))
"""A window in the middle of a gap appears, vanishes, and gets other values."""
EDGES = writes(inserted(4000, 9000), inserted(0, a=5), ("delete", ("d0", 0, 0)), ("delete", ("d0", 9000, 0)), inserted(12_000, a=3))
"""The first and the last window of a group appear and vanish."""
GONE = writes(inserted(0, 4000, 9000), ("delete", ("d0", 0, 9000)), inserted(6000), inserted(2000))
"""All windows of a group vanish."""


@pytest.mark.drawn(2)
@property_settings(3)
@given(
    scenario=SCENARIOS,
    options=st.lists(OPTIONS, min_size=2, max_size=3),
    crashes=st.lists(st.sampled_from([None, None, RESTART, "streams.filled", *MICRO_BATCH_FAILPOINTS]), min_size=12, max_size=12),
)
@example(scenario=SPLIT, options=[FillOptions(fill=mode, length=1000) for mode in MODES], crashes=[None] * 12)
@example(scenario=EDGES, options=[FillOptions(fill=mode, length=1000) for mode in MODES], crashes=[None, RESTART] * 6)
@example(
    scenario=GONE,
    options=[FillOptions(fill=mode, length=1000, partition="tbname") for mode in MODES],
    crashes=[None, None, RESTART] * 4,
)
@limit_shrinking
def test_the_target_is_filled_at_every_moment(
    home: tuple[StreamEnvironment, int], scenario: Scenario, options: list[FillOptions], crashes: list[str | None]
) -> None:
    environment, cached = home
    options = drawn(options, "filled streams", STREAMS_BY_PROFILE[profile_of(environment)])
    with environment.new_database(scenario.subtables) as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(emitted, "MAX_CACHED_PER_GROUP", cached)
        patch.setattr(emitted, "FIRST_SLIDES", 1)
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate(options)]
        oracles = [Oracle(one, {name: g for name, (g, _) in scenario.subtables.items()}) for one in options]
        for (actions, polled, _), crash in zip([*scenario.steps(), ([], True, True)], crashes, strict=False):
            for verb, what in actions:
                apply_action(own, (verb, what))
                for oracle in oracles:
                    oracle.insert(what) if verb == "insert" else oracle.delete(what[0], what[1], what[1] + what[2])
            if polled:
                settle_after_crash(own, crash)
                for plan, oracle, one in zip(plans, oracles, options, strict=True):
                    check(own, plan, oracle, one)
    count_examples(scenario, [one.partition for one in options])


CLOCKED_TRIGGERS = {"max_delay 5s": "at_once", "continuous_window_close recalculate 600s": "window_close"}
"""Triggers by which the clock writes windows, each with the one that has the same windows once all delays have passed."""
CLOCKED_OPTIONS = st.builds(
    FillOptions,
    trigger=st.sampled_from(sorted(CLOCKED_TRIGGERS)),
    watermark=st.sampled_from([0, 3000]),
    partition=st.sampled_from(["", "tbname", "g"]),
    length=st.sampled_from([1000, 3000]),
    sliding=st.sampled_from([None, None, 500]),
    fill=st.sampled_from(MODES),
)


@pytest.mark.drawn(2)
@property_settings(3)
@given(
    scenario=SCENARIOS,
    options=st.lists(CLOCKED_OPTIONS, min_size=2, max_size=4),
    crashes=st.lists(st.sampled_from([None, None, RESTART, "streams.filled", *MICRO_BATCH_FAILPOINTS]), min_size=12, max_size=12),
)
@example(
    scenario=SPLIT, options=[FillOptions(trigger, fill="prev", length=1000) for trigger in CLOCKED_TRIGGERS], crashes=[None] * 12
)
@limit_shrinking
def test_gaps_between_windows_that_the_clock_writes_are_filled(
    home: tuple[StreamEnvironment, int], scenario: Scenario, options: list[FillOptions], crashes: list[str | None]
) -> None:
    options = drawn(options, "streams that the clock fills", STREAMS_BY_PROFILE[profile_of(home[0])])
    with home[0].new_database(scenario.subtables) as own:
        own.context = replace(own.context, clock=ManualClock(START))
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate(options)]
        same = [replace(one, trigger=CLOCKED_TRIGGERS[one.trigger]) for one in options]
        oracles = [Oracle(one, {name: g for name, (g, _) in scenario.subtables.items()}) for one in same]
        for (actions, polled, _), crash in zip([*scenario.steps(), ([], True, True)], crashes, strict=False):
            for verb, what in actions:
                apply_action(own, (verb, what))
                for oracle in oracles:
                    oracle.insert(what) if verb == "insert" else oracle.delete(what[0], what[1], what[1] + what[2])
            if polled:
                own.settle()
                own.clock.advance(600_000)
                settle_after_crash(own, crash)
                for plan, oracle, one in zip(plans, oracles, options, strict=True):
                    check(own, plan, oracle, one)
    count_examples(scenario, [one.partition for one in options])


def settle_after_crash(env: StreamEnvironment, crash: str | None) -> None:
    """Let the streams catch up, after a restart or with a driver that dies at a failpoint."""
    if crash == RESTART:
        env.restart()
    elif crash is not None:
        with armed(f"{crash}:1:raise"):
            try:
                env.settle()
            except FailpointError:
                env.restart_after_failure()
    env.settle()


def check(env: StreamEnvironment, plan: StreamPlan, oracle: Oracle, options: FillOptions) -> None:
    assert env.record(plan).reason is None
    assert [row[:6] for row in env.results(plan)] == filled_results(oracle, options), options


def rows_of(env: StreamEnvironment, plan: StreamPlan) -> list[tuple[Any, ...]]:
    env.settle()
    assert env.record(plan).reason is None
    return [row[:-1] for row in env.results(plan)]


def test_values_that_do_not_depend_on_rows_are_kept(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger at_once into t as select _wstart ws, sum(a) total, _wend we, tbname name, "
        "concat(tbname, '!') shout, _wduration length, 'fix' fixed from readings partition by tbname "
        "interval(2s) sliding(1s) fill(null)"
    )
    env.insert([("d0", 1000, 1, None), ("d0", 5000, 5, None)])
    constants = ("d0", "d0!", 2000, "fix")
    totals = [(0, 1), (1000, 1), (2000, None), (3000, None), (4000, 5), (5000, 5)]
    assert rows_of(env, plan) == [(start, total, start + 2000, *constants) for start, total in totals]


@pytest.mark.parametrize("kernels", ["auto", "never"])
@pytest.mark.parametrize(
    ("mode", "between"),
    [
        ("prev", (0, 1, 1.0, Decimal("1.50"))),
        ("next", (2000, 4, 4.0, Decimal("4.25"))),
        ("linear", (None, 2, 2.5, Decimal("2.88"))),
        ("value, 500, 7, 8.5, 9", (500 - START, 7, 8.5, Decimal("9.00"))),
        ("null", (None,) * 4),
    ],
)
def test_values_of_any_type_are_filled(env: StreamEnvironment, kernels: str, mode: str, between: tuple[Any, ...]) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"kernels": kernels}))
    plan = env.create(
        "create stream s trigger at_once into t as select _wstart ws, last(ts) latest, cast(sum(a) as bigint unsigned) n, "
        f"max(a) + 0.0 m, cast(max(b) as decimal(10,2)) d from readings interval(1s) fill({mode})"
    )
    ends = {0: (0, 1, 1.0, Decimal("1.50")), 2000: (2000, 4, 4.0, Decimal("4.25"))}
    env.insert([("d0", at, n, str(d)) for at, (_, n, _, d) in ends.items()])
    assert rows_of(env, plan) == sorted([(at, *values) for at, values in ends.items()] + [(1000, *between)], key=repr)


def test_windows_of_a_calendar_are_filled(env: StreamEnvironment) -> None:
    plan = env.create("create stream s trigger at_once into t as select _wstart ws, sum(a) n from readings interval(1n) fill(prev)")
    november, march = -13 * DAY - 80_000_000, 110 * DAY
    env.insert([("d0", 0, 3, None), ("d0", march, 5, None)])
    months = rows_of(env, plan)
    assert [total for _, total in months] == [3, 3, 3, 3, 5]
    assert months[0][0] == november
    assert [(after[0] - before[0]) // DAY for before, after in pairwise(months)] == [30, 31, 31, 29]


def test_a_target_of_another_precision_is_filled(env: StreamEnvironment) -> None:
    env.catalog.databases.create(Database("fine", Precision.NANOSECOND))
    plan = env.create(
        "create stream s trigger at_once ignore expired 0 into fine.t as "
        "select _wstart ws, sum(a) n from readings interval(1s) fill(next)"
    )
    for at in (0, 3000, 1000):
        env.insert([("d0", at, at, None)])
        env.settle()
    rows = rows_of(env, plan)
    assert [(start - START * 1_000_000, total) for start, total in rows] == [
        (at * 1_000_000, total) for at, total in [(0, 0), (1000, 1000), (2000, 3000), (3000, 3000)]
    ]


def test_an_existing_target_with_a_composite_key_is_filled(env: StreamEnvironment) -> None:
    columns = (Column("at", TIMESTAMP), Column("k", INT, is_key=True), Column("n", BIGINT), Column("other", INT))
    table = Table("db", "existing", columns, (Column("g", INT),))
    env.catalog.tables.create(table)
    env.tables.create(table, env.database)
    plan = env.create(
        "create stream s trigger at_once ignore update 0 into existing (at, k, n) tags (g) as "
        "select _wstart at, max(a) k, count(*) n from readings partition by g interval(1s) fill(prev)"
    )
    env.insert([("d0", 0, 1, None), ("d0", 3000, 2, None)])
    assert [row[:3] for row in rows_of(env, plan)] == [(0, 1, 1), (1000, 1, 1), (2000, 1, 1), (3000, 2, 1)]
    env.insert([("d1", 500, 7, None)])
    assert [row[:3] for row in rows_of(env, plan)] == [(0, 7, 2), (1000, 7, 2), (2000, 7, 2), (3000, 2, 1)]


def test_too_many_windows_stop_the_stream_until_it_skips_them(env: StreamEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filler, "MAX_FILLED_ROWS", 100)
    plan = env.create("create stream s trigger at_once into t as select _wstart ws, sum(a) n from readings interval(1s) fill(prev)")
    env.insert([("d0", 0, 1, None)])
    assert rows_of(env, plan) == [(0, 1)]
    env.insert([("d0", 200_000, 2, None)])
    env.settle()
    reason = env.record(plan).reason
    assert reason is not None
    assert reason.code == "LIMIT"
    assert "199 rows" in reason.message
    assert env.results(plan) == [(0, 1, 0)]


def test_what_others_do_to_the_target_is_seen(env: StreamEnvironment) -> None:
    plan = env.create(LATE.format("sum(a) n"))
    env.insert([("d0", 0, 1, None), ("d0", 3000, 2, None)])
    assert [total for _, total in rows_of(env, plan)] == [1, 1, 1, 2]
    env.tables.writer.delete(plan.target, plan.target_database, ranges=[(START + 3000, START + 3000)])
    env.tables.maintenance.compact(plan.target)
    env.insert([("d0", 5000, 4, None)])
    assert [total for _, total in rows_of(env, plan)] == [1, 1, 1, 1, 1, 4]
    env.tables.maintenance.compact(plan.target)
    env.insert([("d0", 2000, 3, None)])
    assert [total for _, total in rows_of(env, plan)] == [1, 1, 3, 3, 3, 4]


def test_a_micro_batch_is_filled_again_if_the_target_changes_meanwhile(env: StreamEnvironment) -> None:
    plan = env.create(LATE.format("sum(a) n"))
    env.insert([("d0", 0, 1, None), ("d0", 3000, 2, None)])
    env.settle()
    env.insert([("d0", 5000, 4, None)])

    def delete() -> None:
        env.tables.writer.delete(plan.target, plan.target_database, ranges=[(START + 3000, START + 3000)])

    with calling("streams.filled", delete):
        env.settle()
    assert [total for _, total in rows_of(env, plan)] == [1, 1, 1, 1, 1, 4]


def test_explain_tells_how_gaps_are_filled(offline_env: StreamEnvironment) -> None:
    plan = offline_env.define(LATE.format("count(*)"))
    assert "fill: PREV, between existing windows of a group" in explain(plan.query)


@pytest.mark.parametrize("restart", [False, True], ids=["memory", "target"])
def test_neighbors_are_found_however_far_they_are(env: StreamEnvironment, monkeypatch: pytest.MonkeyPatch, restart: bool) -> None:
    monkeypatch.setattr(emitted, "FIRST_SLIDES", 2)
    monkeypatch.setattr(emitted, "MAX_CACHED_PER_GROUP", 2)
    plan = env.create(LATE.format("sum(a) n"))
    values = {at: at for at in (0, 400_000, 401_000, 900_000, 902_000, 903_000)}
    for at in values:
        env.insert([("d0", at, at, None)])
        env.settle()
    for at in (700_000, 100_000, 401_000, 901_000):
        if restart:
            env.restart()
        env.insert([("d0", at + 1, 5, None)])
        values[at] = 5 + values.get(at, 0)
        before = {start: max(at for at in values if at <= start) for start in range(0, 904_000, 1000)}
        assert dict(rows_of(env, plan)) == {start: values[at] for start, at in before.items()}
