"""What functions make of texts, remembered in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

Value = TypeVar("Value")
MAX_LENGTH: Final = 1_024
"""Characters of a text that is remembered. Longer ones would take as much memory as clients like."""


def remembered(max_size: int) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Return a decorator by which a function remembers what it has made of as many short texts."""

    def decorate(function: Callable[[str], Value]) -> Callable[[str], Value]:
        cached = lru_cache(max_size)(function)

        @wraps(function)
        def call(text: str) -> Value:
            return cached(text) if len(text) <= MAX_LENGTH else function(text)

        return call

    return decorate
