"""How much a run tries. An ordinary run tries a part of some cases, drawn by its seed; a campaign tries all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from tests.streams.environment import PROFILES
from tests.support.drawing import SEED, TAKES_ALL

EXAMPLES: Final = int(os.environ.get("HEADRACE_STREAM_EXAMPLES", "0"))
"""About how many examples a campaign of properties tries; 0 in an ordinary run."""
KILLS: Final = int(os.environ.get("HEADRACE_KILLS", "0"))
"""Kills of a campaign; 0 in an ordinary run."""
IS_CAMPAIGN: Final = bool(EXAMPLES or KILLS or TAKES_ALL)

Case = TypeVar("Case")


def drawn(cases: Sequence[Case], purpose: str, count: int = 1) -> list[Case]:
    """Return `count` of the cases, in their order; all of them in a campaign.

    Each purpose draws others, so that a run does not try the same part everywhere.
    """
    if IS_CAMPAIGN:
        return list(cases)
    numbers = Random(f"{SEED} {purpose}").sample(range(len(cases)), min(count, len(cases)))
    return [cases[number] for number in sorted(numbers)]


def drawn_profiles(purpose: str) -> list[str]:
    """Return the profiles in which to compute windows: kernels, and one of the others; all of them in a campaign."""
    return [PROFILES[0], *drawn(PROFILES[1:], purpose)]
