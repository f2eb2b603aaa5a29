"""Power cuts at random steps of a process that writes and processes. Run by an interpreter into which the recorder is preloaded."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.soak.powercuts.disk import Disk
from tests.soak.powercuts.workload import Journal, check, run, speak

CUTS_PER_HOME: Final = 8
MAX_STEP: Final = 600


def campaign(folder: Path, cuts: int, seed: int) -> Counter[str]:
    """Cut the power so often, check after each time, and return counts."""
    counts: Counter[str] = Counter()
    draw = random.Random(seed)
    while counts["cuts"] < cuts:
        disk, journal = Disk(folder / "home", folder / "record"), Journal()
        shutil.rmtree(disk.root, ignore_errors=True)
        for _ in range(min(CUTS_PER_HOME, cuts - counts["cuts"])):
            journal = one_cut(disk, journal, draw, counts)
            say(dict(counts))
    return counts


def say(counts: dict[str, int]) -> None:
    sys.stdout.write(f"{json.dumps(counts)}\n")
    sys.stdout.flush()


def one_cut(disk: Disk, journal: Journal, draw: random.Random, counts: Counter[str]) -> Journal:
    """Run until the power fails, lose what was not synced, check what is there; return what has to be there next time."""
    disk.begin()
    seed, step = draw.randrange(1 << 30), draw.randrange(1, MAX_STEP)
    for line in lines_of(lambda tell: run(disk.root, seed, tell), disk.variables(step)):
        journal.note(line)
    counts["lost"] += disk.cut(draw)
    try:
        (after,) = lines_of(lambda tell: tell(check(disk.root, journal)), {})
    except ValueError:
        raise SystemExit(f"cut {counts['cuts']} at step {step}: see {disk.root}") from None
    counts["cuts"] += 1
    for name in ("repaired", "reset"):
        counts[name] += after[name]
    counts["acknowledged"] += journal.acknowledged
    counts["unacknowledged"] += len(journal.begun)
    return Journal({(writer, second): value for writer, second, value in after["rows"]}, journal.definitions)


def lines_of(work: Callable[[Callable[[dict[str, Any]], None]], None], variables: dict[str, str]) -> list[dict[str, Any]]:
    """Do work in a child process, and return the lines that it said until it ended or was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            os.environ.update(variables)
            work(speak(writing))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as said:
        lines = [json.loads(line) for line in said.read().splitlines()]
    os.waitpid(child, 0)
    return lines


if __name__ == "__main__":
    started = time.monotonic()
    done = campaign(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    say({**done, "seconds": round(time.monotonic() - started)})
