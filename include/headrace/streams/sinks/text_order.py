"""The order of many texts, by the first bytes in which they differ."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams.definition.group_ids import empty_text

KEY_BYTES: Final = 8


def text_order(texts: pa.Array) -> pa.Array:
    """Return the indexes of texts in ascending order. Equal texts keep their order; NULL is not supported.

    Integers are compared instead of texts, which takes a third of the time, and texts only where these are equal.
    """
    if len(texts) < 2:
        return pa.array(np.arange(len(texts)))
    keys = sort_keys(texts)
    order = np.argsort(keys)
    ordered_keys = keys[order]
    is_equal = np.concatenate(([False], ordered_keys[1:] == ordered_keys[:-1], [False]))
    positions = np.flatnonzero(is_equal[1:] | is_equal[:-1])
    equal = pa.array(np.sort(order[positions]))
    order[positions] = equal.take(pc.sort_indices(texts.take(equal)))
    return pa.array(order)


def sort_keys(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the bytes of texts after those that all begin with, as integers in the same order."""
    ends = pc.min_max(texts).as_py()
    pairs = enumerate(zip(*(ends[end].encode() for end in ("min", "max")), strict=False))
    start = next((index for index, (byte, other) in pairs if byte != other), len(ends["min"].encode()))
    bytes_ = pc.binary_slice(texts.cast(pa.large_binary()), start, start + KEY_BYTES)
    if pc.min(pc.binary_length(bytes_)).as_py() < KEY_BYTES:
        padding = pa.scalar(bytes(KEY_BYTES), pa.large_binary())
        padded = pc.binary_join_element_wise(bytes_, padding, empty_text())
        bytes_ = pc.binary_slice(padded, 0, KEY_BYTES)
    return np.frombuffer(bytes_.buffers()[2], ">u8", len(bytes_)).astype(np.uint64)


def distinct_neighbors(texts: pa.Array) -> pa.Array:
    """Return texts in ascending order without duplicates."""
    if len(texts) < 2:
        return texts
    differs = pc.not_equal(texts[1:], texts[:-1])
    return texts if pc.all(differs).as_py() else texts.filter(pa.concat_arrays([pa.array([True]), differs]))
