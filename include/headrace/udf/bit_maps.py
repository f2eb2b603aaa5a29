"""Marks of rows."""

from __future__ import annotations


class BitMap:
    """A mark for each of some rows, by their indices from 0."""

    __slots__ = ("_marks",)

    def __init__(self, size: int) -> None:
        """Create a map in which no row is marked."""
        self._marks = bytearray(size)

    def get_size(self) -> int:
        """Return the number of rows."""
        return len(self._marks)

    def is_marked(self, index: int) -> bool:
        """Return whether a row is marked."""
        return self._marks[index] != 0

    def mark(self, index: int) -> None:
        """Mark a row."""
        self._marks[index] = 1

    def unmark(self, index: int) -> None:
        """Remove the mark of a row."""
        self._marks[index] = 0

    def mark_all(self) -> None:
        """Mark all rows."""
        self._marks = bytearray(b"\x01") * len(self._marks)

    def reset(self) -> None:
        """Remove the marks of all rows."""
        self._marks = bytearray(len(self._marks))

    def is_all_marked(self) -> bool:
        """Return whether all rows are marked."""
        return 0 not in self._marks

    def is_all_unmarked(self) -> bool:
        """Return whether no row is marked."""
        return 1 not in self._marks
