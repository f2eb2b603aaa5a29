"""The command line as a user feels it: a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.cases.dags import fill_catalog
from benchmarks.measure import interleave, timed
from benchmarks.results import Line, Wanted
from headrace.settings import load

LIMIT_SECONDS: Final = 1.5
STATEMENT: Final = "SHOW STREAMS"
STREAMS: Final = 10


def run(bench: Bench) -> Iterator[Line]:
    """One line."""
    settings = load(home=bench.home / "command")
    fill_catalog(settings, STREAMS)
    script = Path(sys.executable).with_name("headrace")
    command = [str(script), "sql", "--database", "power", "--home", str(settings.home_path), STATEMENT]

    def show() -> None:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "300"}, check=False)
        assert done.returncode == 0, done.stderr
        assert "s000" in done.stdout, done.stdout

    def several() -> list[float]:
        return [seconds for _ in range(bench.sizes.processes) for seconds in timed(show)()]

    found = interleave({"command": several}, bench.sizes.rounds, bench.log)
    yield Line(f'headrace sql "{STATEMENT}", whole process', found["command"], wanted=Wanted(seconds=LIMIT_SECONDS))
