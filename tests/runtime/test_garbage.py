"""Garbage is collected rarely in Headrace's own processes, but it is collected."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from headrace.runtime.garbage import THRESHOLD, collect_rarely


class Node:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the settings of the process."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_cycles_are_freed_without_asking() -> None:
    collect_rarely()
    node = weakref.ref(Node())
    assert node() is not None
    kept: list[list[int]] = [[] for _ in range(2 * THRESHOLD)]
    assert node() is None
    assert len(kept) == 2 * THRESHOLD


def test_what_exists_is_left_out() -> None:
    existing = Node()
    collect_rarely()
    assert not any(existing is other for other in gc.get_objects())
    assert gc.get_freeze_count() > 0
