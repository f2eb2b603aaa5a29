"""Times methods by patching them temporarily, so that the product has no instrumentation."""

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
class TimedFunction:
    """A function to time, as an attribute of a class or module, and its name in the report."""

    name: str
    owner: Any
    attribute: str


@dataclass
class Probe:
    """Records the seconds of each call of the functions while it is active."""

    functions: Sequence[TimedFunction]
    samples: dict[str, list[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Time the functions while the block runs."""
        originals = [(timed, getattr(timed.owner, timed.attribute)) for timed in self.functions]
        for timed, function in originals:
            setattr(timed.owner, timed.attribute, self._wrap(timed.name, function))
        try:
            yield
        finally:
            for timed, function in originals:
                setattr(timed.owner, timed.attribute, function)

    def timings(self) -> dict[str, Timings]:
        """Return the samples by name in the order of the functions, without those that were not called."""
        names = dict.fromkeys(function.name for function in self.functions)
        return {name: Timings(tuple(self.samples[name])) for name in names if self.samples.get(name)}

    def _wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds = time.perf_counter() - start
                with self._lock:
                    self.samples.setdefault(name, []).append(seconds)

        return wrapper
