"""Drivers that die at any failpoint, in any state of a stream: results and events are those of an undisturbed run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import pytest

from headrace.history.backfill import fill_history
from headrace.model.failpoints import FailpointError, armed
from tests.streams import counting
from tests.streams.effort import KILLS, drawn
from tests.streams.environment import SUBTABLES, StreamEnvironment, open_profile, profile_of
from tests.streams.killing import FAILPOINTS, STREAMS, Campaign, open_runs
from tests.support.drawing import SEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS: Final = 12 if KILLS else 6
"""Writes in a round. An ordinary run plays one round, a campaign as many as it takes for so many kills."""
STREAMS_BY_PROFILE: Final = {"kernels": len(STREAMS) // 2, "pieces": len(STREAMS) // 4}
"""The streams of an ordinary run, which are drawn by its seed. They have about three kills each."""
POINTS_BY_PROFILE: Final = {"kernels": len(FAILPOINTS) // 2, "pieces": len(FAILPOINTS) // 4}
"""At more failpoints than these a driver dies."""
HISTORY_FAILPOINTS: Final = ("history.evaluate", "history.commit", "history.committed")
FILLED_HISTORIES: Final = ("interval_at_once", "session_window_close", "state_max_delay", "event_at_once", "count", "filled")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(max(600, 4 * KILLS)),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),  # delivering threads die too
]


@pytest.fixture(scope="module", params=["kernels", "pieces"])
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    with open_profile(request.param, tmp_path_factory.mktemp("kills"), spark) as env:
        yield env


@pytest.mark.drawn(2)
def test_drivers_that_die_anywhere_leave_the_results_and_events_of_an_undisturbed_run(home: StreamEnvironment) -> None:
    killed, seed = 0, SEED
    while killed == 0 or killed < KILLS:
        campaign = Campaign(seed)
        play(home, campaign)
        counting.add("kills", campaign.counts.total())
        killed, seed = killed + campaign.counts.total(), seed + 1
        assert len(campaign.counts) > POINTS_BY_PROFILE[profile_of(home)], campaign.counts


@pytest.mark.drawn(2)
def test_backfills_that_die_anywhere_leave_the_results_of_an_undisturbed_one(home: StreamEnvironment) -> None:
    campaign = Campaign(SEED)
    names = drawn(FILLED_HISTORIES, f"histories of {profile_of(home)}", 2 if profile_of(home) == "kernels" else 1)
    with ExitStack() as stack:
        both = [stack.enter_context(home.new_database({name: (g, 0) for name, g in SUBTABLES.items()})) for _ in range(2)]
        write(campaign, both)
        plans = [[env.create(with_history(name)) for name in names] for env in both]
        for disturbed, undisturbed in zip(*plans, strict=True):
            fill_history(home.context, undisturbed.id)
            for point in HISTORY_FAILPOINTS:
                with armed(f"{point}:1:raise"), suppress(FailpointError):
                    fill_history(home.context, disturbed.id)
                    pytest.fail(f"the backfill does not pass {point}")
                counting.add("kills of backfills")
            fill_history(home.context, disturbed.id)
        for _ in range(2):
            for env, own in zip(both, plans, strict=True):
                env.settle({plan.id for plan in own})
            for name, disturbed, undisturbed in zip(names, *plans, strict=True):
                rows = [[row[:-1] for row in env.results(plan)] for env, plan in zip(both, (disturbed, undisturbed), strict=True)]
                assert rows[0] == rows[1], (name, SEED)
            write(campaign, both)


def with_history(name: str) -> str:
    """Return the statement of a stream that fills its history."""
    return f"create stream {name} {STREAMS[name].replace(' into ', ' fill_history 1 into ', 1)}"


def write(campaign: Campaign, envs: Sequence[StreamEnvironment]) -> None:
    """Write the same rows to the sources of some streams."""
    for step in campaign.steps(3):
        for env in envs:
            step.apply(env)


def play(home: StreamEnvironment, campaign: Campaign) -> None:
    """Run streams with and without kills, and compare them after each step."""
    profile = profile_of(home)
    names = drawn(list(STREAMS), f"streams of {profile}", STREAMS_BY_PROFILE[profile])
    with ExitStack() as stack:
        both = [stack.enter_context(home.new_database({name: (g, 0) for name, g in SUBTABLES.items()})) for _ in range(2)]
        runs = [stack.enter_context(open_runs(env, names)) for env in both]
        for step in campaign.steps(STEPS):
            for env in both:
                step.apply(env)
            home.clock.advance(step.pause_ms)
            both[1].settle({run.plan.id for run in runs[1]})
            for name, disturbed, undisturbed in zip(names, *runs, strict=True):
                campaign.play(disturbed, undisturbed, name)
        for name, disturbed, undisturbed in zip(names, *runs, strict=True):
            assert disturbed.events() == undisturbed.events(), (name, campaign.seed)
