"""Which gaps a change opens, closes or moves: the target is filled again without looking at any other windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compute.plan import WSTART
from headrace.compute.windows.fill import AT, NEXT
from headrace.streams.filling.gaps import GROUP, NO_ROW, Neighborhood, WindowKeys, changed_gaps

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
SOURCES = {"before": ["before"], "after": ["after"], "both": ["before", "after"], "neither": []}
"""The values that those of a mode depend on."""


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


def windows_in(gaps: pa.Table) -> pa.Table:
    """Return the windows in gaps, which start at all whole numbers."""
    rows = [row | {AT.name: at} for row in gaps.to_pylist() for at in range(row[WSTART] + 1, row[NEXT.name])]
    return pa.Table.from_pylist(rows, pa.schema([*gaps.schema, (AT.name, pa.int64())]))


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
    changed = keys([*upserts, *retracted], [*range(len(present), len(rows)), *([NO_ROW] * len(retracted))])
    near = Neighborhood.of(keys(present, list(range(len(present)))), changed)
    values = pa.chunked_array([rows], pa.string())
    before, after = (near.gaps(row, {"before": values}, {"after": values}) for row in (near.old_row, near.row))
    to_fill, deleted = changed_gaps(near, before, after, SOURCES[mode], windows_in)

    target = filled(old, value)
    for window in (tuple(row.values()) for row in deleted.select([GROUP, AT.name]).to_pylist()):
        assert window not in new
        target.pop(window, None)
    target |= upserts
    for row in to_fill.to_pylist():
        target[row[GROUP], row[AT.name]] = value(row["before"], row["after"])
    assert target == filled(new, value)
