"""Cases of which each run takes a part, so that many runs take them all.

A run draws by a seed that it prints and that `HEADRACE_DRAW_SEED` sets. With `HEADRACE_DRAW=all` it takes every case.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any, Final

SEED: Final = int(os.environ.get("HEADRACE_DRAW_SEED", "0")) or time.time_ns() % 1_000_000
TAKES_ALL: Final = os.environ.get("HEADRACE_DRAW") == "all"
NOTE: Final = f"drawn by HEADRACE_DRAW_SEED={SEED}"


def is_drawn(name: str, share: int) -> bool:
    """Return whether this run takes a case; it takes one of `share`."""
    return TAKES_ALL or random.Random(f"{SEED} {name}").randrange(share) == 0


def draw(cases: list[dict[str, Any]], share: int) -> list[dict[str, Any]]:
    """Return the recorded cases that this run takes, one of `share`, in their order."""
    numbers = range(len(cases))
    drawn = numbers if TAKES_ALL else sorted(random.Random(SEED).sample(numbers, -(-len(cases) // share)))
    return [cases[number] for number in drawn]
