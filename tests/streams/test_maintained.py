"""A stream is a maintained query, for any order of writes and any cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.streams.definition.define import StreamPlan
from tests.streams.effort import EXAMPLES, drawn_profiles
from tests.streams.environment import StreamEnvironment, open_profile, profile_of
from tests.streams.oracle import Options, Oracle
from tests.streams.scenarios import (
    SCENARIOS,
    Scenario,
    apply_action,
    count_examples,
    limit_shrinking,
    property_settings,
)
from tests.streams.test_windows import MAX_STREAMS, STREAMS_BY_PROFILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]

OPTIONS = st.builds(
    Options,
    trigger=st.sampled_from(["at_once", "window_close"]),
    watermark=st.sampled_from([0, 3000, 15_000]),
    ignore_expired=st.booleans(),
    ignore_update=st.booleans(),
    partition=st.sampled_from(["", "tbname", "g", "b", "g, b"]),
    where=st.sampled_from([None, None, 3]),
    sliding=st.sampled_from([None, None, 5000, 3000]),
)


AGAIN = Scenario([[("insert", [("d0", instant, 1, "x") for instant in instants]) for instants in ((0,), (0, 24_500), (0,))]])
"""A row whose first update is on time, and whose second one is expired."""


@pytest.fixture(scope="module", params=drawn_profiles("maintained"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    """An environment of each drawn profile for all examples; each example gets a new database in it."""
    with open_profile(request.param, tmp_path_factory.mktemp("maintained"), spark) as env:
        yield env


@pytest.mark.drawn(2)
@property_settings(6)
@given(scenario=SCENARIOS, options=st.lists(OPTIONS, min_size=2, max_size=MAX_STREAMS))
@example(AGAIN, [Options(trigger, ignore_expired=True) for trigger in ("at_once", "window_close")])
@limit_shrinking
def test_a_stream_equals_its_definition_for_any_order_and_batching(
    home: StreamEnvironment, scenario: Scenario, options: list[Options]
) -> None:
    follow(home, scenario, options[: STREAMS_BY_PROFILE[profile_of(home)]])


def follow(home: StreamEnvironment, scenario: Scenario, options: list[Options]) -> None:
    """Play a scenario; compare the streams and their counters with their definitions whenever they have caught up."""
    with home.new_database(scenario.subtables) as own:
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate(options)]
        oracles = [Oracle(one, {name: g for name, (g, _) in scenario.subtables.items()}) for one in options]
        for number, (writes, polled, _) in enumerate([*scenario.steps(), ([], True, True)]):
            for verb, what in writes:
                apply_action(own, (verb, what))
                for oracle in oracles:
                    oracle.insert(what) if verb == "insert" else oracle.delete(what[0], what[1], what[1] + what[2])
            if polled:
                if number in scenario.restarts:
                    own.restart_after_failure()
                own.settle()
                for plan, oracle in zip(plans, oracles, strict=True):
                    check(own, plan, oracle)
    count_examples(scenario, [one.partition for one in options])


def check(own: StreamEnvironment, plan: StreamPlan, oracle: Oracle) -> None:
    record = own.record(plan)
    assert record.reason is None
    assert [row[: oracle.options.width] for row in own.results(plan)] == oracle.results(), oracle.options
    counters = record.progress.counters
    counted = counters.rows_used, counters.rows_updated, counters.rows_expired, counters.rows_filtered
    assert counted == (oracle.used, oracle.updated, oracle.expired, oracle.filtered), oracle.options
