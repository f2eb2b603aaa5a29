"""A stream whose aggregates keep rows, users' or others, equals its query: for any order of writes, any batches and any faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.code.hosts import current_hosts
from tests.streams.effort import EXAMPLES, drawn
from tests.streams.environment import PROFILES, StreamEnvironment, open_profile
from tests.streams.expected import LIST_COLUMNS, OF_VALUES, USER_COLUMNS
from tests.streams.oracle import Options
from tests.streams.scenarios import SCENARIOS, Scenario, limit_shrinking, property_settings, scale
from tests.streams.test_machine import StreamMachine, run
from tests.streams.test_maintained import OPTIONS, follow
from tests.streams.test_windows import SHAPES, Stream, check, streams
from tests.streams.user_code import register_aggregates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]


def selecting(stream: Stream, columns: tuple[str, ...]) -> Stream:
    """Return a stream with further columns."""
    return replace(stream, shape=replace(stream.shape, more=columns))


MORE = (USER_COLUMNS, LIST_COLUMNS)
DRAWN = st.sampled_from(sorted(SHAPES)).flatmap(streams).map(lambda drawn: list(map(selecting, drawn, MORE)))


@pytest.fixture(scope="module", params=drawn(PROFILES, "user aggregates"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    """An environment of a profile, whose code hosts all examples share."""
    with open_profile(request.param, tmp_path_factory.mktemp("aggregates"), spark, kernels="auto") as env:
        register_aggregates(env)
        yield env
    current_hosts().close()


def test_a_stream_whose_aggregates_keep_rows_equals_its_query(home: StreamEnvironment) -> None:
    @limit_shrinking
    def is_equal(scenario: Scenario, tried: list[Stream]) -> None:
        check(home, scenario, tried)

    property_settings(2)(given(scenario=SCENARIOS, tried=DRAWN)(is_equal))()


def test_it_equals_its_definition_if_it_ignores_rows(home: StreamEnvironment) -> None:
    @limit_shrinking
    def is_equal(scenario: Scenario, options: list[Options]) -> None:
        follow(home, scenario, options)

    options = st.tuples(*(OPTIONS.map(partial(replace, more=column)) for column in OF_VALUES)).map(list)
    property_settings(2)(given(scenario=SCENARIOS, options=options)(is_equal))()


@pytest.mark.drawn(2)
def test_it_does_whatever_users_and_drivers_do(home: StreamEnvironment) -> None:
    class Machine(StreamMachine):
        def __init__(self) -> None:
            super().__init__(home)

        def adapted(self, stream: Stream) -> Stream:
            return selecting(stream, (*USER_COLUMNS, *LIST_COLUMNS))

    run(Machine, scale(2))
