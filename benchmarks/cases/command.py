"""The command line as users experience it, including the start of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.cases.dags import fill_catalog
from benchmarks.measure import interleave, time_call
from benchmarks.results import Limit, Measurement
from headrace.settings import load

LIMIT_SECONDS: Final = 1.5
STATEMENT: Final = "SHOW STREAMS"
STREAMS: Final = 10


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure `headrace sql` with a statement that needs no Spark."""
    settings = load(home=bench.home / "command")
    fill_catalog(settings, STREAMS)
    script = Path(sys.executable).with_name("headrace")
    command = [str(script), "sql", "--database", "power", "--home", str(settings.home_path), STATEMENT]

    def show() -> None:
        process = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "300"}, check=False)
        assert process.returncode == 0, process.stderr
        assert "s000" in process.stdout, process.stdout

    def repeat() -> list[float]:
        return [seconds for _ in range(bench.sizes.processes) for seconds in time_call(show)()]

    timings = interleave({"command": repeat}, bench.sizes.rounds, bench.log)
    yield Measurement(f'headrace sql "{STATEMENT}", whole process', timings["command"], limit=Limit(seconds=LIMIT_SECONDS))
