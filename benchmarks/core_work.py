"""How much more two cores of this machine do at once than one of them: they may share caches, memory or a physical core.

The work is like that of a micro-batch: sorting and gathering in arrays of some megabytes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import numpy as np

ROWS: Final = 500_000
REPETITIONS: Final = 10


def work() -> None:
    """Sort rows by group and time, and gather them."""
    rows = np.arange(ROWS)
    groups, times = rows % 1000, rows // 1000
    order = np.lexsort((times, groups))
    for values in (rows, groups, times):
        np.add.reduceat(values[order], rows[::100])


def gain(cores: Sequence[int]) -> float:
    """Return how many times as much some cores do at once as the first of them alone."""
    return len(cores) * seconds(cores[:1]) / seconds(cores)


def seconds(cores: Sequence[int]) -> float:
    """Return the seconds that the work takes if each of some cores does it at once."""
    with ExitStack() as stack:
        processes = [stack.enter_context(process_on(core)) for core in cores]
        outputs = []
        for process in processes:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            outputs.append((process.stdin, process.stdout))
        for begin, _ in outputs:
            begin.write("\n")
            begin.flush()
        return max(float(result.readline()) for _, result in outputs)


def process_on(core: int) -> subprocess.Popen[str]:
    command = ["taskset", "-c", str(core), sys.executable, "-m", "benchmarks.core_work"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main() -> None:
    """Do the work when a line is read, and print the seconds that it took."""
    work()
    write("ready")
    sys.stdin.readline()
    start = time.perf_counter()
    for _ in range(REPETITIONS):
        work()
    write(str(time.perf_counter() - start))


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
