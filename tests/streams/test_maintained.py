"""A stream is a maintained query, for any order of writes and any cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams.definition.define import StreamPlan
from tests.streams.house import House, house
from tests.streams.oracle import Options, Oracle
from tests.streams.scenarios import EXAMPLES, SCENARIOS, Scenario, apply, campaign, shrinking_is_bounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(300, 20 * EXAMPLES))]

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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[House]:
    """A house for all examples, each of which gets a database of its own in it."""
    with house(tmp_path_factory.mktemp("maintained"), lambda: spark) as built:
        yield built


@campaign(8)
@given(scenario=SCENARIOS, options=st.lists(OPTIONS, min_size=2, max_size=3))
@shrinking_is_bounded
def test_a_stream_holds_what_its_definition_says_whatever_the_order_and_the_cut(
    home: House, scenario: Scenario, options: list[Options]
) -> None:
    with home.renewed(scenario.subtables) as own:
        plans = [own.create(one.sql(f"s{number}")) for number, one in enumerate(options)]
        oracles = [Oracle(one, {name: g for name, (g, _) in scenario.subtables.items()}) for one in options]
        for writes, polled in [*scenario.steps(), ([], True)]:
            for verb, what in writes:
                apply(own, (verb, what))
                for oracle in oracles:
                    oracle.insert(what) if verb == "insert" else oracle.delete(what[0], what[1], what[1] + what[2])
            if polled:
                own.settle()
                for plan, oracle in zip(plans, oracles, strict=True):
                    check(own, plan, oracle)


def check(own: House, plan: StreamPlan, oracle: Oracle) -> None:
    record = own.record(plan)
    assert record.reason is None
    assert [row[:6] for row in own.results(plan)] == oracle.results(), oracle.options
    counters = record.progress.counters
    counted = counters.rows_used, counters.rows_expired, counters.rows_filtered
    assert counted == (oracle.used, oracle.expired, oracle.filtered), oracle.options
    assert counters.rows_in == oracle.used + oracle.expired + oracle.filtered
