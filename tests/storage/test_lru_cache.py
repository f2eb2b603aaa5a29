"""Caches with a maximum size."""

from __future__ import annotations

import pyarrow as pa

from headrace.storage.delta.handles import COLUMN_BYTES, MAX_CACHED_BYTES, TABLE_BYTES, cached_rows
from headrace.storage.delta.lru_cache import LruCache


def cache_of(*values: str, max_size: int) -> LruCache[str, str]:
    """Return a cache of words by their first letter, with their length as the size."""
    cache: LruCache[str, str] = LruCache(max_size, len)
    for value in values:
        cache.put(value[0], value)
    return cache


def kept(cache: LruCache[str, str]) -> str:
    return "".join(key for key in "abc" if cache.get(key) is not None)


def test_what_was_used_last_is_kept() -> None:
    cache = cache_of("aa", "bb", max_size=4)
    assert cache.get("a") == "aa"
    cache.put("c", "cc")
    assert kept(cache) == "ac"


def test_sizes_count_once_and_until_a_value_is_replaced_or_discarded() -> None:
    cache = cache_of("aa", "aaa", "b", max_size=4)
    assert kept(cache) == "ab"
    cache.discard("a")
    cache.discard("a")
    cache.put("c", "ccc")
    assert kept(cache) == "bc"


def test_a_value_that_is_too_large_is_kept_until_the_next() -> None:
    cache = cache_of("aa", "bbbbbb", max_size=4)
    assert kept(cache) == "b"
    cache.put("c", "c")
    assert kept(cache) == "c"


def test_many_small_tables_count_as_what_they_take_in_memory() -> None:
    cache = cached_rows()
    for number in range(20_000):
        cache.put(str(number), pa.table({"ts": [number], "a": [1]}))
    kept = sum(cache.get(str(number)) is not None for number in range(20_000))
    assert kept * TABLE_BYTES < MAX_CACHED_BYTES < (kept + 1) * (TABLE_BYTES + 3 * COLUMN_BYTES)
