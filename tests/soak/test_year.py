"""The short form of the campaign with a year's commits: numbers of files, open files and rows of the catalog stay flat."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.soak.year.measures import CONTROL, Trend, is_count, trends
from tests.soak.year.run import run_short

KEPT_FOR_HOURS: Final = ("files of log of", "files of changes of", "files of checkpoints of")
"""These grow for as long as a short run takes."""


@pytest.mark.spark
@pytest.mark.drawn(2)
@pytest.mark.usefixtures("spark")
def test_numbers_of_files_and_rows_stay_flat_beside_commits_and_maintenance(tmp_path: Path) -> None:
    measured, failures = run_short(tmp_path, commits=300, seed=3, batches=15, nights=10)
    counts = [trend for trend in measured if is_count(trend.measure) and not trend.measure.startswith(KEPT_FOR_HOURS)]
    assert {"files of data of soak/readings/rows", "open files of process", "rows of jobs"} <= {trend.measure for trend in counts}
    assert [trend for trend in counts if not trend.is_flat] == []
    assert not failures


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [([0.0, 100.0, 130.0, 119.0], True), ([0.0, 100.0, 110.0, 121.0], False), ([0.0, 1.0, 2.0, 39.0], True)],
)
def test_growth_is_that_of_the_last_tenth_over_the_second(values: list[float], is_flat: bool) -> None:
    samples = [{"files": value} for value in (*values[:2], *([values[2]] * 7), values[3])]
    assert trends(samples) == [Trend("files", tuple(sample["files"] for sample in samples))]
    assert trends(samples)[0].is_flat is is_flat


@pytest.mark.parametrize("kind", ["CPU ms", "elapsed ms"])
@pytest.mark.parametrize(("control", "is_flat"), [(1.0, False), (1.5, True)])
def test_times_are_seen_beside_those_of_a_new_table(kind: str, control: float, is_flat: bool) -> None:
    measure, beside = f"INSERT, {kind}", f"{CONTROL}, {kind}"
    samples = [{measure: 4.0, beside: 1.0} for _ in range(9)] + [{measure: 5.6, beside: control}]
    assert {trend.measure: trend.is_flat for trend in trends(samples)} == {measure: is_flat, beside: True}


@pytest.mark.parametrize(("at_the_end", "is_flat"), [(205.0, True), (215.0, False)])
def test_memory_that_caches_have_filled_is_flat(at_the_end: float, is_flat: bool) -> None:
    samples = [{"memory of snode MB": megabytes} for megabytes in (100, 120, 150, 180, *([200] * 5), at_the_end)]
    assert trends(samples)[0].is_flat is is_flat
