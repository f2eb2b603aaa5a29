"""A selection of the tests of streams with tables and state on an object store; `make test-object-store` runs all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.environment import StreamEnvironment, open_profile, profile_of
from tests.streams.scenarios import SCENARIOS, Scenario, limit_shrinking, property_settings
from tests.streams.test_windows import STREAMS_BY_PROFILE, Stream, check, streams
from tests.support.object_store import WAREHOUSE_VARIABLE, Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=["kernels", "pieces"])
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, object_store: Server
) -> Iterator[StreamEnvironment]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WAREHOUSE_VARIABLE, object_store.create_bucket())
        with open_profile(request.param, tmp_path_factory.mktemp("streams"), spark) as env:
            assert env.tables.uri.startswith("s3://")
            yield env


@property_settings(2)
@given(scenario=SCENARIOS, tried=st.sampled_from(["interval", "session", "state"]).flatmap(streams))
@limit_shrinking
def test_a_stream_equals_its_query(home: StreamEnvironment, scenario: Scenario, tried: list[Stream]) -> None:
    check(home, scenario, tried[: STREAMS_BY_PROFILE[profile_of(home)]])
