"""A stream with FORCE_WINDOW_CLOSE has each window as its query had it over the rows that had arrived when the clock closed it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.clock import ManualClock
from tests.streams.effort import EXAMPLES, drawn_profiles
from tests.streams.environment import START, StreamEnvironment, open_profile, profile_of
from tests.streams.expected import Shape, SourceModel, Stamped, interval, output_row
from tests.streams.scenarios import (
    SCENARIOS,
    Scenario,
    apply_action,
    count_examples,
    limit_shrinking,
    property_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 20 * EXAMPLES))]

Result = tuple[Any, ...]


@dataclass(frozen=True)
class Forced:
    """A stream, and the length and slide of its windows in ms."""

    length: int
    step: int
    watermark: int = 0
    fill: str = ""
    min_a: int | None = None

    @property
    def shape(self) -> Shape:
        sliding = f" sliding({self.step}a)" if self.step != self.length else ""
        return Shape(f"interval({self.length}a){sliding}", interval(self.length, self.step), "tbname", self.min_a)

    def sql(self, name: str) -> str:
        fill = f" fill({self.fill})" if self.fill else ""
        options = f"trigger force_window_close watermark {self.watermark}a"
        return f"create stream {name} {options} into out_{name} as {self.shape.query}{fill}"


@dataclass
class ForcedModel:
    """The expected target of one stream."""

    stream: Forced
    next_start: int
    target: list[Result] = field(default_factory=list)
    last: dict[str, Result] = field(default_factory=dict)

    def settle(self, stored: SourceModel, now: int) -> None:
        """Compute the windows that have ended by now, in ms after `START`."""
        while self.next_start + self.stream.length + self.stream.watermark <= now:
            self.compute(stored, self.next_start)
            self.next_start += self.stream.step

    def compute(self, stored: SourceModel, start: int) -> None:
        groups = defaultdict[str, list[Stamped]](list)
        for (subtable, ts), (a, b) in sorted(stored.rows.items(), key=lambda item: item[0][1]):
            if start <= ts < start + self.stream.length and self.stream.shape.passes(a):
                groups[subtable].append((ts, a, b))
        for group in dict.fromkeys((*groups, *self.last)):
            if group in groups:
                own = output_row((start, start, groups[group]), self.stream.shape)
            elif self.stream.fill == "prev":
                own = (start, *self.last[group][1:])
            elif self.stream.fill:
                own = (start, *(None for _ in range(6)))
            else:
                continue
            self.last[group] = own
            self.target.append(own)


FORCED = (
    Forced(10_000, 10_000),
    Forced(10_000, 5000),
    Forced(7000, 3000, min_a=3),
    Forced(5000, 5000, watermark=3000),
    Forced(5000, 5000, fill="prev"),
    Forced(6000, 2000, fill="null"),
)
PAUSES = st.lists(st.sampled_from([0, 1000, 2500, 5000, 11_000]), min_size=12, max_size=12)


@pytest.fixture(scope="module", params=drawn_profiles("forced windows"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    """An environment of each drawn profile for all examples; each example gets a new database in it."""
    with open_profile(request.param, tmp_path_factory.mktemp("forced"), spark) as env:
        yield env


@pytest.mark.drawn(2)
@property_settings(3)
@given(scenario=SCENARIOS, pauses=PAUSES, tried=st.lists(st.sampled_from(FORCED), min_size=2, max_size=3, unique=True))
@limit_shrinking
def test_each_window_is_that_of_the_query_when_the_clock_closed_it(
    home: StreamEnvironment, scenario: Scenario, pauses: list[int], tried: list[Forced]
) -> None:
    if profile_of(home) != "kernels":
        tried = tried[:1]
    with home.new_database(scenario.subtables) as own:
        own.context = replace(own.context, clock=ManualClock(START))
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate(tried)]
        models = [ForcedModel(one, first_window(one)) for one in tried]
        stored = SourceModel(scenario.subtables)
        steps = list(scenario.steps())
        for (writes, polled, restarted), pause in zip([*steps, ([], True, True)], [*pauses[: len(steps)], 60_000], strict=True):
            for write in writes:
                apply_action(own, write)
                stored.apply(write, [])
            own.clock.advance(pause)
            if not polled:
                continue
            if restarted:
                own.restart()
            own.settle()
            for plan, model in zip(plans, models, strict=True):
                model.settle(stored, own.clock.now() - START)
                assert own.record(plan).reason is None
                expected = sorted(model.target, key=repr)
                assert [row[:7] for row in own.results(plan)] == expected, model.stream.sql("s")
    count_examples(scenario, [one.shape.partition for one in tried])


def first_window(stream: Forced) -> int:
    """Return the earliest window that contains `START`, in ms after it."""
    latest = -(START % stream.step)
    return latest - (stream.length + latest - 1) // stream.step * stream.step
