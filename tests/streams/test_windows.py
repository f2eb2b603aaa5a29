"""A stream equals its query at any moment, for every kind of window, any order of writes and any cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.effort import EXAMPLES, drawn_profiles
from tests.streams.environment import StreamEnvironment, open_profile, profile_of
from tests.streams.expected import Shape, SourceModel, Windows, count, event, interval, session, state
from tests.streams.scenarios import (
    SCENARIOS,
    Action,
    Scenario,
    apply_action,
    count_examples,
    limit_shrinking,
    property_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.streams.definition.define import StreamPlan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]

FAR = 10_000_000
MIN_STREAMS, MAX_STREAMS = 3, 12
STREAMS_BY_PROFILE = {"kernels": MAX_STREAMS, "pieces": 4, "spark": 2}
"""For the same few rows, Spark SQL takes ten times as long as kernels, and Spark's writes of the results of pieces four times as
long, so they compute the first streams of a scenario only."""
SCENARIOS_BY_PROFILE = {"kernels": 5, "pieces": 3, "spark": 2}
TRIGGERS = ("at_once", "window_close", "max_delay 5s")
DELAYS_MS = 600_000
"""The longest delay of a trigger."""
EVENTS = (
    ("a > 5", lambda row: row[1] is not None and row[1] > 5, "a < 3", lambda row: row[1] is not None and row[1] < 3),
    ("b = 'x'", lambda row: row[2] == "x", "a > 6", lambda row: row[1] is not None and row[1] > 6),
    ("a > 2", lambda row: row[1] is not None and row[1] > 2, "a > 4", lambda row: row[1] is not None and row[1] > 4),
)
SHAPES = {
    "interval": [
        *(Shape("interval(10s)", interval(10_000), partition) for partition in ("", "tbname", "g", "lane")),
        *(Shape("interval(10s) sliding(5s)", interval(10_000, 5000), partition) for partition in ("tbname", "lane")),
        Shape("interval(7s) sliding(3s)", interval(7000, 3000), "g", 3),
    ],
    "session": [
        *(Shape("session(ts, 2s)", session(2000), partition) for partition in ("", "lane", "tbname")),
        Shape("session(ts, 1500a)", session(1500)),
        Shape("session(ts, 1s)", session(1000), "g"),
        Shape("session(ts, 2s)", session(2000), "lane", 3),
    ],
    "state": [
        Shape("state_window(a)", state(1)),
        Shape("state_window(b)", state(2)),
        Shape("state_window(b)", state(2), min_a=3),
        Shape("state_window(b) true_for(2s)", state(2, 2000)),
    ],
    "event": [
        *(Shape(f"event_window start with {start} end with {end}", event(starts, ends)) for start, starts, end, ends in EVENTS),
        Shape("event_window start with a > 5 end with a < 3", event(EVENTS[0][1], EVENTS[0][3]), min_a=1),
        Shape("event_window start with a > 5 end with a < 3 true_for(2s)", event(EVENTS[0][1], EVENTS[0][3], 2000)),
    ],
    "count": [
        *(Shape(f"count_window({size})", count(size)) for size in (2, 3)),
        *(Shape(f"count_window({size}, {step})", count(size, step)) for size, step in ((4, 2), (4, 1), (5, 3))),
        Shape("count_window(3)", count(3), min_a=3),
    ],
}


@dataclass(frozen=True)
class Stream:
    """A stream that drops nothing, so that it equals its query."""

    shape: Shape
    trigger: str
    watermark: int

    @property
    def closed_before(self) -> int | None:
        """The watermark delay if the target has only closed windows once all delays have passed, else None."""
        return None if self.trigger.startswith(("at_once", "max_delay")) else self.watermark

    @property
    def has_delay(self) -> bool:
        """True if the clock makes results due."""
        return self.trigger.startswith(("max_delay", "continuous"))

    def sql(self, name: str) -> str:
        # Windows of COUNT need IGNORE EXPIRED 1; with such a watermark nothing expires.
        options = f"watermark {self.watermark}a ignore expired {int(self.shape.clause.startswith('count'))} ignore update 0"
        return f"create stream {name} trigger {self.trigger} {options} into out_{name} as {self.shape.query}"


def streams(kind: str) -> st.SearchStrategy[list[Stream]]:
    watermarks = [100_000] if kind == "count" else [0, 3000, 15_000]
    triggers = [*TRIGGERS, "continuous_window_close recalculate 600s"] if kind == "interval" else TRIGGERS
    one = st.builds(Stream, st.sampled_from(SHAPES[kind]), st.sampled_from(triggers), st.sampled_from(watermarks))
    return st.lists(one, min_size=MIN_STREAMS, max_size=MAX_STREAMS, unique=True)


@pytest.fixture(scope="module")
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    """An environment of a profile for all examples; each example gets a new database in it."""
    with open_profile(request.param, tmp_path_factory.mktemp("windows"), spark) as env:
        yield env


def check(env: StreamEnvironment, scenario: Scenario, tried: list[Stream]) -> None:
    """Play a scenario; compare the streams with their queries whenever they have caught up, and after all windows have closed."""
    with env.new_database(scenario.subtables) as own:
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate(tried)]
        stored = SourceModel(scenario.subtables)
        closing = ("insert", [(name, FAR + extra, 9, "x") for extra in (0, 200_000) for name in scenario.subtables])
        has_delays = any(one.has_delay for one in tried)
        for number, (writes, polled, ticked) in enumerate([*scenario.steps(), ([], True, True), ([closing], True, True)]):
            for write in writes:
                apply_action(own, write)
                stored.apply(write, [one.shape for one in tried])
            if not polled:
                continue
            if number in scenario.restarts:
                own.restart_after_failure()
            own.settle()
            check_before_delays(own, stored, dict(zip(tried, plans, strict=True)))
            if not ticked:
                continue
            if has_delays:
                own.clock.advance(DELAYS_MS)
                own.settle()
            for plan, one in zip(plans, tried, strict=True):
                assert own.record(plan).reason is None
                assert target_rows(own, plan, one.shape) == stored.results(one.shape, one.closed_before), one.sql("s")
    count_examples(scenario, [one.shape.partition for one in tried])


def check_before_delays(env: StreamEnvironment, stored: SourceModel, plans: dict[Stream, StreamPlan]) -> None:
    """Compare the streams without a delay with their queries, and what MAX_DELAY writes at once with the closed windows."""
    for one, plan in plans.items():
        rows = target_rows(env, plan, one.shape)
        if one.trigger.startswith("max_delay"):
            assert set(stored.results(one.shape, one.watermark)) <= set(rows), one.sql("s")
        elif not one.trigger.startswith("continuous"):
            assert rows == stored.results(one.shape, one.closed_before), one.sql("s")


def target_rows(env: StreamEnvironment, plan: StreamPlan, shape: Shape) -> list[tuple[object, ...]]:
    """Return the columns of the target that the query fills."""
    return [row[: shape.width] for row in env.results(plan)]


def inserts(*instants: int, a: int = 1, b: str = "x") -> list[Action]:
    """Writes of one row each."""
    return [("insert", [("d0", instant, a, b)]) for instant in instants]


def streams_of(clause: str, windows: Windows, watermark: int = 100_000) -> list[Stream]:
    return [Stream(Shape(clause, windows), trigger, watermark) for trigger in TRIGGERS]


LATE = ("insert", [("d0", 1500, 1, "y")])
RUNS = streams_of("state_window(b)", state(2), 2000)
LASTING = streams_of("state_window(b) true_for(2s)", state(2, 2000), 2000)
SLIDING = streams_of("count_window(4, 2)", count(4, 2))
ALONE = streams_of("session(ts, 2s)", session(2000), 0)
OPEN = streams_of("event_window start with a > 5 end with a < 3", event(EVENTS[0][1], EVENTS[0][3]), 0)


KEPT: dict[str, list[tuple[Scenario, list[Stream]]]] = {
    "interval": [],
    # A delete that leaves no row of any window of the batch.
    "session": [(Scenario([[*inserts(0), ("delete", ("d0", 0, 0))]], [True]), ALONE)],
    # A batch closes windows that it leaves alone, while later ones of their partition are recalculated.
    # Windows that are too short to be shown have one between them that is shown, and needs no look when more rows come.
    "state": [
        (
            Scenario([[("insert", [("d0", 0, 1, "x"), ("d0", 1000, 1, "y"), ("d0", 2000, 1, "x")]), *inserts(6000), LATE]], [True]),
            RUNS,
        ),
        (Scenario([[*inserts(0, 5000), LATE, *inserts(1800, b="x")]], [True] * 4), LASTING),
    ],
    # A window that is open in the state continues with rows of one batch that come in the wrong order.
    "event": [(Scenario([[*inserts(0, a=6), *inserts(9000, 8000)]], [True]), OPEN)],
    # A late row into overlapping windows, of which an earlier one ends after the first that changes has begun; then rows in order.
    # A window that is not full in the state continues with rows of one batch that come in the wrong order.
    "count": [
        (Scenario([inserts(0, 1000, 2000, 3000, 4000, 5000, 4500, 7000)], [True] * 8), SLIDING),
        (Scenario([inserts(0, 9000, 8000)], [True]), SLIDING),
    ],
}
"""Examples that once failed."""


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("home", "kind"), [(profile, kind) for kind in sorted(SHAPES) for profile in drawn_profiles(kind)], indirect=["home"]
)
def test_a_stream_equals_its_query(home: StreamEnvironment, kind: str) -> None:
    @limit_shrinking
    def is_equal(scenario: Scenario, tried: list[Stream]) -> None:
        check(home, scenario, tried[: STREAMS_BY_PROFILE[profile_of(home)]])

    for scenario, tried in KEPT[kind]:
        is_equal(scenario=scenario, tried=tried)
    property_settings(SCENARIOS_BY_PROFILE[profile_of(home)])(given(scenario=SCENARIOS, tried=streams(kind))(is_equal))()
