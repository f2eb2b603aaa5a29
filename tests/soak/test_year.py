"""The short form of the campaign with a year's commits: numbers of files, open files and rows of the catalog stay flat."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.soak.year.measures import Trend, is_count, trends
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
