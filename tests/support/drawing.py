"""Cases of which each run takes a part, so that many runs take them all.

A run draws by a seed that it prints and that `HEADRACE_DRAW_SEED` sets. With `HEADRACE_DRAW=all` it takes every case. On a
machine that is n times slower than usual, which `HEADRACE_DRAW_SLOWDOWN` says, a run takes an n-th, to end in about the same time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from typing import Final, TypeVar

SEED: Final = int(os.environ.get("HEADRACE_DRAW_SEED", "0")) or time.time_ns() % 1_000_000
SLOWDOWN: Final = float(os.environ.get("HEADRACE_DRAW_SLOWDOWN", "1"))
TAKES_ALL: Final = os.environ.get("HEADRACE_DRAW") == "all"
Case = TypeVar("Case")

NOTE: Final = f"drawn by HEADRACE_DRAW_SEED={SEED}"


def is_drawn(name: str, share: int) -> bool:
    """Return whether this run takes a case; it takes one of `share`."""
    return TAKES_ALL or random.Random(f"{SEED} {name}").random() * share * SLOWDOWN < 1


def drawn(cases: Sequence[Case], purpose: str, count: int) -> list[Case]:
    """Return the cases that this run takes, `count` of them in their order. Each purpose draws others."""
    if TAKES_ALL:
        return list(cases)
    numbers = random.Random(f"{SEED} {purpose}").sample(range(len(cases)), min(max(round(count / SLOWDOWN), 1), len(cases)))
    return [cases[number] for number in sorted(numbers)]
