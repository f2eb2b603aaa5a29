"""Where our time goes: methods timed for a while from outside, so that the product carries nothing for it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measure import Timings


@dataclass(frozen=True, slots=True)
class Spot:
    """A function to be timed: an attribute of a class or module, under a name."""

    name: str
    owner: Any
    attribute: str


@dataclass
class Probe:
    """Seconds of each call of each spot while it is on."""

    spots: Sequence[Spot]
    samples: dict[str, list[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Time the spots meanwhile."""
        before = [(spot, getattr(spot.owner, spot.attribute)) for spot in self.spots]
        for spot, function in before:
            setattr(spot.owner, spot.attribute, self._timing(spot.name, function))
        try:
            yield
        finally:
            for spot, function in before:
                setattr(spot.owner, spot.attribute, function)

    def timings(self) -> dict[str, Timings]:
        """By name, in the order of the spots; those that were not called are left out."""
        names = dict.fromkeys(spot.name for spot in self.spots)
        return {name: Timings(tuple(self.samples[name])) for name in names if self.samples.get(name)}

    def _timing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timing(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                taken = time.perf_counter() - began
                with self._lock:
                    self.samples.setdefault(name, []).append(taken)

        return timing
