"""The parameters of the processors that keep a value when it changes: a deviation, and bounds of the time between kept values."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.processors.sampling import MAX_INTERVAL, check_down_sampling, check_keys, fingerprint_of


@dataclass(frozen=True, slots=True)
class Limits:
    """When a value is kept.

    Attributes:
        deviation: How far a value may deviate without being kept.
        min_interval: A value is dropped if no more ticks than this have passed since the last kept one.
        max_interval: A value is kept if this many ticks have passed.
    """

    deviation: float
    min_interval: int
    max_interval: int

    def fingerprint(self, processor: str) -> str:
        """Return what identifies the processor with these limits."""
        return fingerprint_of(processor, asdict(self))


def read_limits(attributes: PipeAttributes, namespace: str) -> Limits:
    """Return the limits, whose keys begin with a namespace such as `sdt.`; raise `ProgrammingError` for invalid ones."""
    keys = [f"{namespace}{name}" for name in ("compression-deviation", "min-time-interval", "max-time-interval")]
    check_down_sampling(attributes)
    check_keys(attributes, namespace, keys)
    deviation = attributes.number(keys[0], default=0.0)
    shortest = attributes.integer(keys[1], default=0)
    longest = attributes.integer(keys[2], default=MAX_INTERVAL)
    shortest, longest = 0 if shortest == -1 else shortest, MAX_INTERVAL if longest == -1 else longest
    for key, value in zip(keys, (deviation, shortest, longest), strict=True):
        if value < 0 or math.isnan(value):
            raise pipe_error(f"{key} must be >= 0, but got {value}")
    if shortest > longest:
        raise pipe_error(f"{keys[1]} must be <= {keys[2]}, but got {shortest} and {longest}")
    if longest > MAX_INTERVAL:
        raise pipe_error(f'For input string: "{longest}"', hint=f"{keys[2]} is a 64-bit number")
    return Limits(deviation, shortest, longest)
