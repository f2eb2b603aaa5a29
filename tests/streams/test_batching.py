"""Results do not depend on how writes are cut into batches, whatever a stream drops or counts again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.effort import EXAMPLES
from tests.streams.environment import StreamEnvironment, open_environment
from tests.streams.expected import Shape
from tests.streams.scenarios import (
    SCENARIOS,
    Scenario,
    apply_action,
    count_examples,
    limit_shrinking,
    property_settings,
)
from tests.streams.test_windows import SHAPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 30 * EXAMPLES))]


@dataclass(frozen=True)
class Stream:
    shape: Shape
    at_once: bool
    watermark: int
    ignore_expired: bool
    ignore_update: bool

    def sql(self, name: str) -> str:
        trigger = "at_once" if self.at_once else "window_close"
        counting = self.shape.clause.startswith("count")
        options = f"watermark {max(self.watermark, int(counting))}a ignore expired {int(self.ignore_expired or counting)}"
        return (
            f"create stream {name} trigger {trigger} {options} ignore update {int(self.ignore_update)} "
            f"into out_{name} as {self.shape.query}"
        )


STREAMS = st.builds(
    Stream,
    st.sampled_from([shape for shapes in SHAPES.values() for shape in shapes]),
    st.booleans(),
    st.sampled_from([0, 3000, 15_000, 100_000]),
    st.booleans(),
    st.sampled_from([True, True, False]),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[StreamEnvironment]:
    with open_environment(tmp_path_factory.mktemp("cuts"), lambda: spark) as env:
        yield env


@pytest.mark.drawn(2)
@property_settings(5)
@given(scenario=SCENARIOS, tried=st.lists(STREAMS, min_size=1, max_size=2))
@limit_shrinking
def test_results_do_not_depend_on_how_writes_are_batched(home: StreamEnvironment, scenario: Scenario, tried: list[Stream]) -> None:
    with home.new_database(scenario.subtables) as own:
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate([*tried, *tried])]
        one_by_one, together = plans[: len(tried)], plans[len(tried) :]
        for writes, polled, _ in [*scenario.steps(), ([], True, True)]:
            for write in writes:
                apply_action(own, write)
                own.settle({plan.id for plan in one_by_one})
            if not polled:
                continue
            own.settle()
            for plan, other, stream in zip(one_by_one, together, tried, strict=True):
                records = own.record(plan), own.record(other)
                assert [record.reason for record in records] == [None, None]
                assert own.results(other) == own.results(plan), stream.sql("s")
                counted = [
                    (one.rows_used, one.rows_updated, one.rows_expired, one.rows_filtered)
                    for one in (record.progress.counters for record in records)
                ]
                assert counted[0] == counted[1], stream.sql("s")
    count_examples(scenario, [one.shape.partition for one in tried])
