"""Collecting garbage rarely, in the processes that belong to Headrace."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLD: Final = 20_000
"""New objects after which Python looks for cycles among them: its default of 700 takes a tenth of a micro-batch's time.

What does not refer to itself is freed at once, as always.
"""


def collect_rarely() -> None:
    """Look for unreachable cycles rarely, and never among what exists by now: imported modules are never garbage."""
    gc.set_threshold(THRESHOLD)
    gc.freeze()
