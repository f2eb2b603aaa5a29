"""Swinging door sampling does what a plain loop over the rows does, for any cut into batches, and keeps its promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ProgrammingError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, Event
from headrace.pipes.processors import swinging_door
from tests.pipes.processors.streams import CONTEXT, Row, cuts, insert, row, rows, rows_in, run_cut, same, sorted_rows, through_ipc
from tests.pipes.processors.test_changing_value import is_kept

COLUMNS = ("d1", "i1", "t1")
LIMITS = st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.integers(0, 3), st.sampled_from([3, 10, 1 << 62]))


@dataclass
class Door:
    """The state of a series."""

    newest: float = -math.inf
    anchor: tuple[int, float] | None = None
    held: tuple[int, float] | None = None
    upper: float = -math.inf
    lower: float = math.inf
    is_settled: bool = False

    def release(self) -> list[tuple[int, float]]:
        """Return the held point, unless a correction of it was delivered."""
        return [] if self.held is None or self.is_settled else [self.held]

    def restart(self, anchor: tuple[int, float] | None) -> None:
        self.anchor, self.held, self.upper, self.lower, self.is_settled = anchor, None, -math.inf, math.inf, False

    def add(self, time: int, value: float, deviation: float, shortest: int, longest: int) -> list[tuple[int, float]]:
        """Return the points that are delivered when a point arrives."""
        if time <= self.newest:
            self.is_settled = self.is_settled or (self.held is not None and time == self.held[0])
            return [(time, value)]
        self.newest = time
        if not math.isfinite(value):
            out = self.release()
            self.restart(None)
            return [*out, (time, value)]
        if self.anchor is None:
            self.restart((time, value))
            return [(time, value)]
        return self.advance(time, value, deviation, shortest, longest)

    def advance(self, time: int, value: float, deviation: float, shortest: int, longest: int) -> list[tuple[int, float]]:
        assert self.anchor is not None
        passed = time - self.anchor[0]
        if passed <= shortest:
            return []
        if self.held is not None and not self.upper <= (value - self.anchor[1]) / passed <= self.lower:
            out = self.release()
            self.restart(self.held)
            return [*out, *self.advance(time, value, deviation, shortest, longest)]
        if passed >= longest:
            self.restart((time, value))
            return [(time, value)]
        self.upper = max(self.upper, (value - self.anchor[1] - deviation) / passed)
        self.lower = min(self.lower, (value - self.anchor[1] + deviation) / passed)
        self.held, self.is_settled = (time, value), False
        return []


def model(found: Sequence[Row], deviation: float, shortest: int, longest: int) -> list[Row]:
    """Sample row by row."""
    doors: dict[tuple[str, str], Door] = {}
    texts: dict[tuple[str, str], tuple[int, Any]] = {}
    result = []
    for one in found:
        out: dict[int, dict[str, Any]] = {}
        for name in (name for name in COLUMNS if name in one.values):
            key, value = (one.device, name), one.values[name]
            if isinstance(value, str):
                if key not in texts or is_kept(texts[key], one.time, value, 0, shortest, longest):
                    texts[key] = (one.time, value)
                    out.setdefault(one.time, {})[name] = value
                continue
            for time, kept in doors.setdefault(key, Door()).add(one.time, value, deviation, shortest, longest):
                out.setdefault(time, {})[name] = kept
        held = sorted(time for time in out if time != one.time)
        result += [Row(time, one.device, out[time]) for time in [*held, *([one.time] if one.time in out else [])]]
    return result


def attributes(limits: tuple[float, int, int]) -> dict[str, str]:
    names = ("compression-deviation", "min-time-interval", "max-time-interval")
    return {f"sdt.{name}": str(value) for name, value in zip(names, limits, strict=True)}


@given(cuts(rows(COLUMNS) | sorted_rows(COLUMNS)), LIMITS)
def test_any_cut_into_batches_gives_what_a_loop_over_the_rows_gives(
    cut: tuple[list[Row], list[list[Row]]], limits: tuple[float, int, int]
) -> None:
    whole, batches = cut
    assert same(run_cut(swinging_door.create, attributes(limits), batches, COLUMNS), model(whole, *limits))


@pytest.mark.parametrize("devices", [1, 60, 2000])
@pytest.mark.parametrize(
    "limits", [(0.0, 0, 1 << 62), (3.0, 0, 1 << 62), (3.0, 200, 20_000), (100.0, 0, 1 << 62), (1e9, 0, 1 << 62)]
)
def test_long_and_many_series_give_what_a_loop_over_the_rows_gives(devices: int, limits: tuple[float, int, int]) -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(-5, 5, 20_000).cumsum()
    found = [row(at, f"root.db.d{at % devices}", d1=float(value)) for at, value in enumerate(values)]
    assert run_cut(swinging_door.create, attributes(limits), [found[:7000], found[7000:]], ["d1"]) == model(found, *limits)


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(-100, 100)), min_size=2, max_size=60), st.floats(0.1, 20))
def test_lines_between_delivered_points_pass_all_others_within_the_deviation(
    points: list[tuple[int, float]], deviation: float
) -> None:
    times = np.cumsum([passed for passed, _ in points]).tolist()
    found = [row(time, "root.db.d", d1=value) for time, (_, value) in zip(times, points, strict=True)]
    processor = swinging_door.create(PipeAttributes({"sdt.compression-deviation": str(deviation)}), CONTEXT)
    delivered = rows_in(processor.process([insert(found)], 0))
    for before, after in pairwise(delivered):
        for one in found:
            if before.time < one.time < after.time:
                share = (one.time - before.time) / (after.time - before.time)
                line = before.values["d1"] + share * (after.values["d1"] - before.values["d1"])
                assert abs(one.values["d1"] - line) <= deviation * (1 + 1e-9) + 1e-9


def test_a_step_is_delivered_as_a_step() -> None:
    values = [0, 0, 0, 0, 100, 100, 100, 100, 0]
    found = [row(at, "root.db.d", d1=float(value)) for at, value in enumerate(values)]
    processor = swinging_door.create(PipeAttributes({"sdt.compression-deviation": "1"}), CONTEXT)
    points = [(one.time, one.values["d1"]) for one in rows_in(processor.process([insert(found)], 0))]
    assert points == [(0, 0.0), (3, 0.0), (4, 100.0), (7, 100.0)]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_held_point_that_was_corrected_or_deleted_is_not_delivered(is_cut: bool) -> None:
    first, correction = [row(0, "d", d1=0.0), row(1, "d", d1=0.0)], row(1, "d", d1=7.0)
    steps: list[list[Event]] = [[insert([*first, correction]), insert([row(2, "d", d1=50.0)])]]
    steps.append([insert(first), DeleteEvent(insert([row(1, "d", d1=0.0)]).data), insert([row(2, "d", d1=50.0)])])
    for events, expected in zip(steps, ([first[0], correction], [first[0]]), strict=True):
        processor, result = swinging_door.create(PipeAttributes({}), CONTEXT), []
        for batch in [[event] for event in events] if is_cut else [events]:
            result += rows_in(processor.process(batch, 0))
        assert result == expected


def test_a_state_of_other_parameters_is_discarded() -> None:
    before = swinging_door.create(PipeAttributes({}), CONTEXT)
    before.process([insert([row(1, "d", d1=1.0)])], 0)
    after = swinging_door.create(PipeAttributes({"sdt.compression-deviation": "2"}), CONTEXT)
    after.restore(through_ipc(before.state()))
    assert rows_in(after.process([insert([row(2, "d", d1=1.0)])], 0)) == [row(2, "d", d1=1.0)]


def test_large_integers_are_delivered_as_they_are() -> None:
    found = [row(at, "d", i1=(1 << 62) + 1 + at % 2) for at in range(3)]
    processor = swinging_door.create(PipeAttributes({"sdt.max-time-interval": "1"}), CONTEXT)
    assert rows_in(processor.process([insert(found, ["i1"])], 0)) == found


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ProgrammingError, match=r"sdt\.compression-deviation must be >= 0, but got -2\.0"):
        swinging_door.validate(PipeAttributes({"sdt.compression-deviation": "-2"}))
