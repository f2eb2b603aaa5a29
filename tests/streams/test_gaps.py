"""Which gaps a change opens, closes or moves: the target is filled again without looking at any other windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.filling.gaps import NO_ROW, Gaps, Neighborhood, WindowKeys

Window = tuple[int, int]
"""Group and start."""
Target = dict[Window, str]

WINDOWS = st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 20)), st.sampled_from("abc"), max_size=20)
VALUES: dict[str, Callable[[str, str], str]] = {
    "before": lambda before, _: f"({before})",
    "after": lambda _, after: f"({after})",
    "both": lambda before, after: f"({before}{after})",
    "neither": lambda _before, _after: "()",
}


def keys(windows: list[Window], rows: list[int]) -> WindowKeys:
    groups, starts = ([window[side] for window in windows] for side in range(2))
    return WindowKeys(np.array(groups, np.int64), np.array(starts, np.int64), np.array(rows, np.int64))


def filled(windows: Target, value: Callable[[str, str], str]) -> Target:
    """Return windows with those in the gaps of their groups."""
    target = dict(windows)
    for first, last in pairwise(sorted(windows)):
        if first[0] == last[0]:
            target |= {(first[0], start): value(windows[first], windows[last]) for start in range(first[1] + 1, last[1])}
    return target


def neighbors(windows: Target, changed: set[Window]) -> list[Window]:
    """Return the windows at the changed ones, before and after them."""
    near = set()
    for group, start in changed:
        own = [window for window in windows if window[0] == group]
        near |= {max((window for window in own if window[1] < start), default=None)}
        near |= {min((window for window in own if window[1] > start), default=None)}
        near |= {window for window in own if window[1] == start}
    return sorted(window for window in near if window is not None)


def points(gaps: Gaps) -> list[tuple[int, Window]]:
    """Return the windows in gaps, each with the number of its gap."""
    ranges = zip(gaps.group.tolist(), gaps.start.tolist(), gaps.end.tolist(), strict=True)
    return [(number, (group, at)) for number, (group, start, end) in enumerate(ranges) for at in range(start + 1, end)]


@settings(deadline=None)
@given(
    old=WINDOWS,
    upserts=WINDOWS,
    retracted=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), unique=True, max_size=8),
    mode=st.sampled_from(sorted(VALUES)),
)
def test_a_target_is_filled_after_any_change(old: Target, upserts: Target, retracted: list[Window], mode: str) -> None:
    value = VALUES[mode]
    new = {window: values for window, values in old.items() if window not in retracted} | upserts
    present = neighbors(old, {*upserts, *retracted})
    rows = [*(old[window] for window in present), *upserts.values()]
    near = Neighborhood.of(
        keys(present, list(range(len(present)))),
        keys(list(upserts), list(range(len(present), len(rows)))),
        keys(retracted, [NO_ROW] * len(retracted)),
    )
    differs = np.array(
        [left >= 0 and right >= 0 and rows[left] != rows[right] for left, right in zip(near.old_row, near.new_row, strict=True)],
        bool,
    )
    to_fill = near.gaps_to_fill(differs, before=mode in ("before", "both"), after=mode in ("after", "both"))

    target = filled(old, value)
    deleted = near.is_retracted & ~near.is_inside()
    doomed = [*zip(near.group[deleted].tolist(), near.start[deleted].tolist(), strict=True)]
    cleared = [window for _, window in points(near.gaps_to_clear())]
    for window in (*doomed, *cleared):
        assert window not in new
        target.pop(window, None)
    target |= upserts
    for number, window in points(to_fill):
        target[window] = value(rows[to_fill.before[number]], rows[to_fill.after[number]])
    assert target == filled(new, value)
