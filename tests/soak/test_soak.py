"""The short form of the soak: every operation and fault at least once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.run import soak
from tests.soak.workload import WEIGHTS
from tests.support.postgres import MISSING, find_programs


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.postgres
@pytest.mark.timeout(1_200)
def test_every_stream_and_pipe_equals_its_query_after_random_writes_and_faults(tmp_path: Path) -> None:
    if find_programs() is None:
        pytest.skip(MISSING)
    report = soak(tmp_path, seed=7, operations=45)
    assert report.is_equal, (report.streams, report.pipes)
    assert set(WEIGHTS) - {"kill_worker", "resume", "cut_power"} <= report.operations.keys()
