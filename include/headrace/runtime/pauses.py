"""Pauses before retries, by the clock of the connection: the machine's clock may be set, and tests set their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause between two instants in epoch ms. It has ended if the clock shows less than its start: the clock was set back."""

    start: int
    end: int

    def end_at(self, now: int) -> int:
        """Return when the pause ends: at once if the clock was set back."""
        return self.end if now >= self.start else now


NO_PAUSE: Final = Pause(0, 0)
