"""A cache of what was used last, whose maximum size is not a number of values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """The values that were used last, up to a total size, but always the very last. Thread-safe."""

    def __init__(self, max_size: int, size_of: Callable[[Value], int]) -> None:
        self._max_size = max_size
        self._size_of = size_of
        self._size = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, key: Key) -> Value | None:
        with self._mutex:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Key, value: Value) -> None:
        with self._mutex:
            self._discard(key)
            self._values[key] = value
            self._size += self._size_of(value)
            while self._size > self._max_size and len(self._values) > 1:
                self._size -= self._size_of(self._values.popitem(last=False)[1])

    def discard(self, key: Key) -> None:
        with self._mutex:
            self._discard(key)

    def _discard(self, key: Key) -> None:
        if key in self._values:
            self._size -= self._size_of(self._values.pop(key))
