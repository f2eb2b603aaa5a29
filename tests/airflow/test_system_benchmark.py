"""The benchmark of a running system measures the stream that it creates."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench import Bench, Sizes
from benchmarks.cases.system import measure
from tests.airflow.running import RunningSystem

pytestmark = [pytest.mark.airflow, pytest.mark.e2e, pytest.mark.timeout(3600)]


def test_a_new_stream_of_the_running_system_is_measured(up: RunningSystem, tmp_path: Path) -> None:
    bench = Bench(tmp_path, Sizes(batch_rows=60), lambda _: None, home=up.settings.home)
    try:
        first, later = measure(bench, seconds=0)
        bench.execute("DROP DATABASE bench")
    finally:
        bench.close()
    assert first.ours.samples
    assert later.ours.samples
