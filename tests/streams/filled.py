"""FILL in plain Python: the rows of a target, from the windows that a stream has emitted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.streams.oracle import Group, Options, Oracle

MODES = ("none", "null", "null_f", "value", "value_f", "prev", "next", "linear")
CONSTANTS = (7, 8, 9, 10, "z")

Values = tuple[Any, ...]
"""The values of a window behind its start."""


@dataclass(frozen=True)
class FillOptions(Options):
    """A stream's statement with FILL."""

    fill: str = "prev"

    def sql(self, name: str) -> str:
        constants = f", {', '.join(map(repr, CONSTANTS))}" if self.fill.startswith("value") else ""
        return f"{super().sql(name)} fill({self.fill}{constants})"


def filled_results(oracle: Oracle, options: FillOptions) -> list[tuple[Any, ...]]:
    """Return the rows of the target without tags, ordered: the emitted windows, and those between two of a group."""
    groups = defaultdict[Group, dict[int, Values]](dict)
    for (group, start), row in oracle.emitted.items():
        groups[group][start] = row[1:]
    rows = [(start, *values) for windows in groups.values() for start, values in fill(windows, options)]
    return sorted(rows, key=repr)


def fill(windows: dict[int, Values], options: FillOptions) -> Iterator[tuple[int, Values]]:
    """Yield the windows of a group, with those that FILL adds."""
    yield from windows.items()
    for first, last in pairwise(sorted(windows)) if options.fill != "none" else ():
        for start in range(first, last, options.sliding or options.length):
            if start > first:
                share = (start - first, last - first)
                yield start, filled_values(options.fill, windows[first], windows[last], *share)


def filled_values(mode: str, before: Values, after: Values, offset: int, length: int) -> Values:
    """Return the values of a window in a gap."""
    match mode:
        case "prev":
            return before
        case "next":
            return after
        case "value" | "value_f":
            return CONSTANTS
        case "linear":
            return tuple(between(low, high, offset, length) for low, high in zip(before, after, strict=True))
        case _:
            return (None,) * len(before)


def between(low: Any, high: Any, offset: int, length: int) -> int | None:
    """Return the whole number on the line between two."""
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    return math.trunc(low + (high - low) * offset / length)
