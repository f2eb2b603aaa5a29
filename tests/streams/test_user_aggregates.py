"""A stream that calls an aggregate of a user equals its query, for any order of writes, any cut into batches, and any faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.code.hosts import current_hosts
from tests.streams.effort import EXAMPLES, drawn
from tests.streams.environment import PROFILES, StreamEnvironment, open_profile
from tests.streams.oracle import Options
from tests.streams.scenarios import SCENARIOS, Scenario, limit_shrinking, property_settings, scale
from tests.streams.test_machine import StreamMachine, run
from tests.streams.test_maintained import OPTIONS, follow
from tests.streams.test_windows import SHAPES, Stream, check, streams
from tests.streams.user_code import register_aggregates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]

MAX_STREAMS = 2


def calling_user_code(stream: Stream) -> Stream:
    """Return a stream with a column that user code computes."""
    return replace(stream, shape=replace(stream.shape, user_code=True))


DRAWN = st.sampled_from(sorted(SHAPES)).flatmap(streams).map(lambda drawn: [calling_user_code(one) for one in drawn[:MAX_STREAMS]])


@pytest.fixture(scope="module", params=drawn(PROFILES, "user aggregates"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    """An environment of a profile, whose code hosts all examples share."""
    with open_profile(request.param, tmp_path_factory.mktemp("aggregates"), spark, kernels="auto") as env:
        register_aggregates(env)
        yield env
    current_hosts().close()


def test_a_stream_with_an_aggregate_of_a_user_equals_its_query(home: StreamEnvironment) -> None:
    @limit_shrinking
    def is_equal(scenario: Scenario, tried: list[Stream]) -> None:
        check(home, scenario, tried)

    property_settings(2)(given(scenario=SCENARIOS, tried=DRAWN)(is_equal))()


def test_it_equals_its_definition_if_it_ignores_rows(home: StreamEnvironment) -> None:
    @limit_shrinking
    def is_equal(scenario: Scenario, options: list[Options]) -> None:
        follow(home, scenario, options)

    options = OPTIONS.map(lambda one: replace(one, user_code=True))
    property_settings(2)(given(scenario=SCENARIOS, options=st.lists(options, min_size=2, max_size=MAX_STREAMS))(is_equal))()


@pytest.mark.drawn(2)
def test_it_does_whatever_users_and_drivers_do(home: StreamEnvironment) -> None:
    class Machine(StreamMachine):
        def __init__(self) -> None:
            super().__init__(home)

        def adapted(self, stream: Stream) -> Stream:
            return calling_user_code(stream)

    run(Machine, scale(2))
