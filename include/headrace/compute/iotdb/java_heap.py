"""A bounded heap that breaks ties like `java.util.PriorityQueue`, so that results equal the server's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
BLOCK: Final = 4096


def top_indexes(values: Values, count: int, *, greatest: bool) -> npt.NDArray[np.int64]:
    """Return the indexes of the `count` greatest or least values, ascending.

    A value beyond the queue's head replaces it; other values are skipped a block at a time.
    """
    queue = PriorityQueue(values, greatest)
    for index in range(min(count, len(values))):
        queue.add(index)
    index = count
    while (
        next_index := next_beyond(values, index, values[queue.indexes[0]] if queue.indexes else None, greatest=greatest)
    ) is not None:
        queue.replace_head(next_index)
        index = next_index + 1
    return np.sort(np.array(queue.indexes, dtype=np.int64))


def next_beyond(values: Values, start: int, head: Any, *, greatest: bool) -> int | None:
    """Return the first index from `start` whose value is beyond the head. NaN never is."""
    for first in range(start, len(values), BLOCK):
        block = values[first : first + BLOCK]
        beyond = np.flatnonzero(block > head if greatest else block < head)
        if len(beyond):
            return first + int(beyond[0])
    return None


class PriorityQueue:
    """A binary heap of indexes, sifted like Java's. NaN sorts after all other numbers."""

    def __init__(self, values: Values, greatest: bool) -> None:
        self.values = values
        self.indexes: list[int] = []
        self.before: Callable[[int, int], bool] = self._less if greatest else self._opposite_less

    def _less(self, left: int, right: int) -> bool:
        first, second = self.values[left], self.values[right]
        return bool(first < second or (first == first and second != second))

    def _opposite_less(self, left: int, right: int) -> bool:
        first, second = self.values[left], self.values[right]
        return bool(first > second or (first == first and second != second))

    def add(self, index: int) -> None:
        """Append an index and move it up while it sorts before its parent."""
        indexes, position = self.indexes, len(self.indexes)
        indexes.append(index)
        while position > 0 and self.before(index, indexes[(position - 1) // 2]):
            indexes[position] = indexes[(position - 1) // 2]
            position = (position - 1) // 2
        indexes[position] = index

    def replace_head(self, index: int) -> None:
        """Remove the head, then add an index, in the server's order of steps."""
        last = self.indexes.pop()
        if self.indexes:
            self._sift_down(last)
        self.add(index)

    def _sift_down(self, index: int) -> None:
        """Put an index at the head and move it down while a child sorts before it."""
        indexes, position, size = self.indexes, 0, len(self.indexes)
        while position < size // 2:
            child = 2 * position + 1
            if child + 1 < size and self.before(indexes[child + 1], indexes[child]):
                child += 1
            if not self.before(indexes[child], index):
                break
            indexes[position], position = indexes[child], child
        indexes[position] = index
