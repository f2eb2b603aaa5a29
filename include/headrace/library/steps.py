"""The limit of functions whose cost grows faster than their series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.udf import ParameterError, Parameters

MAX_STEPS: Final = "maxSteps"
"""The system attribute of a call with the limit."""
DEFAULT_MAX_STEPS: Final = 10_000_000_000


class StepLimitError(ParameterError):
    """A call would take too many steps."""


@dataclass(slots=True)
class StepLimit:
    """Counts the steps of a call over one series or group. A step takes about a nanosecond, within a factor of three."""

    function: str
    max_steps: int
    steps: float = 0

    @classmethod
    def of(cls, function: str, parameters: Parameters) -> StepLimit:
        """Return the limit of a call, which the setting `HEADRACE_LIBRARY_MAX_STEPS` has set."""
        return cls(function, int(parameters.get_system_string(MAX_STEPS) or DEFAULT_MAX_STEPS))

    def add(self, steps: float, reason: str) -> None:
        """Count steps before they are taken. Raise `StepLimitError` with the reason for them if they are too many."""
        self.steps += steps
        if self.steps > self.max_steps:
            raise StepLimitError(
                f"{self.function} takes {self.steps:.2g} steps for {reason}, more than HEADRACE_LIBRARY_MAX_STEPS, "
                f"which is {self.max_steps}; pass fewer, or raise this setting"
            )
