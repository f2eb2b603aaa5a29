"""How much a run tries. An ordinary run tries a part of some cases, drawn by its seed; a campaign tries all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

from tests.streams.environment import PROFILES
from tests.support import drawing

EXAMPLES: Final = int(os.environ.get("HEADRACE_STREAM_EXAMPLES", "0"))
"""About how many examples a campaign of properties tries; 0 in an ordinary run."""
KILLS: Final = int(os.environ.get("HEADRACE_KILLS", "0"))
"""Kills of a campaign; 0 in an ordinary run."""
IS_CAMPAIGN: Final = bool(EXAMPLES or KILLS)

Case = TypeVar("Case")


def drawn(cases: Sequence[Case], purpose: str, count: int = 1) -> list[Case]:
    """Return the cases that this run takes, `count` of them; all of them in a campaign."""
    return list(cases) if IS_CAMPAIGN else drawing.drawn(cases, purpose, count)


def drawn_profiles(purpose: str) -> list[str]:
    """Return the profiles in which to compute windows: kernels, and one of the others; all of them in a campaign."""
    return [PROFILES[0], *drawn(PROFILES[1:], purpose)]
