"""Cases of which each run takes a part, so that many runs take them all.

A run draws by a seed that it prints and that `HEADRACE_DRAW_SEED` sets. With `HEADRACE_DRAW=all` it takes every case.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from typing import Final, TypeVar

SEED: Final = int(os.environ.get("HEADRACE_DRAW_SEED", "0")) or time.time_ns() % 1_000_000
TAKES_ALL: Final = os.environ.get("HEADRACE_DRAW") == "all"
Case = TypeVar("Case")

NOTE: Final = f"drawn by HEADRACE_DRAW_SEED={SEED}"


def is_drawn(name: str, share: int) -> bool:
    """Return whether this run takes a case; it takes one of `share`."""
    return TAKES_ALL or random.Random(f"{SEED} {name}").randrange(share) == 0


def drawn(cases: Sequence[Case], purpose: str, count: int) -> list[Case]:
    """Return the cases that this run takes, `count` of them in their order. Each purpose draws others."""
    if TAKES_ALL:
        return list(cases)
    numbers = random.Random(f"{SEED} {purpose}").sample(range(len(cases)), min(count, len(cases)))
    return [cases[number] for number in sorted(numbers)]
