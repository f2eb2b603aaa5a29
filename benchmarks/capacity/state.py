"""`python -m benchmarks.capacity.state HOME WINDOWS`: print the bytes by which a process grows with the state of a stream."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

from benchmarks.bench import Bench, Sizes
from benchmarks.cases.states import OpenWindows
from headrace.runtime.garbage import collect_rarely

BATCH_ROWS: Final = 100


def measure_state(home: Path, windows: int) -> float:
    """Return the bytes of a state, with all that comes with it, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.capacity.state", str(home), str(windows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def resident_bytes() -> int:
    """Return the memory of this process without garbage."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def main() -> None:
    """Measure, after a small state has had everything imported."""
    collect_rarely()
    bench = Bench(Path(sys.argv[1]), Sizes(batch_rows=BATCH_ROWS), lambda _: None)
    OpenWindows(bench, BATCH_ROWS).write_batch(0)
    before = resident_bytes()
    stream = OpenWindows(bench, int(sys.argv[2]))
    stream.write_batch(0)
    sys.stdout.write(f"{resident_bytes() - before}\n")
    bench.close()


if __name__ == "__main__":
    main()
