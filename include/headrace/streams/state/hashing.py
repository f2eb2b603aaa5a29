"""Hashes of rows, computed with NumPy: equal values have equal hashes, in any two tables and processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
NULL_HASH: Final = np.uint64(0xD6E8FEB86659FD93)
MAX_STRINGS: Final = 1 << 16
"""Strings to hash at once, so that memory does not follow the size of a table."""


def hash_rows(rows: pa.Table, columns: Sequence[str]) -> Hashes:
    hashes = np.zeros(rows.num_rows, np.uint64)
    for name in columns:
        hashes = mix(hashes * FACTOR + hash_column(rows[name]))
    return hashes


def mix(values: Hashes) -> Hashes:
    """Spread the bits of integers, as SplitMix64 does."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hash_column(column: pa.ChunkedArray) -> Hashes:
    """Return a hash of each value of a column. Dictionaries hash as their values, integers of all widths alike."""
    chunks = [hash_array(chunk) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.uint64)


def hash_array(values: pa.Array) -> Hashes:
    type_ = values.type
    if pa.types.is_dictionary(type_):
        of_values = np.append(hash_array(values.dictionary), NULL_HASH)
        return np.asarray(of_values[values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)])
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_) or pa.types.is_boolean(type_):
        hashes = mix(to_integers(values))
    elif pa.types.is_floating(type_):
        numbers = values.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        hashes = mix(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    else:
        hashes = hash_strings(values)
    if values.null_count:
        hashes[values.is_null().to_numpy(zero_copy_only=False)] = NULL_HASH
    return hashes


def to_integers(values: pa.Array) -> Hashes:
    """Return integers, instants and booleans as 64 bits."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    integers = values.fill_null(False if pa.types.is_boolean(values.type) else 0).to_numpy(zero_copy_only=False)
    return np.asarray(integers.astype(np.uint64))


def hash_strings(values: pa.Array) -> Hashes:
    """Return a hash of each string, of each binary value, and of the text of all other values; that of NULL is arbitrary."""
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
        values = values.cast(pa.large_string())
    bytes_ = values.cast(pa.large_binary())
    parts = [hash_bytes(bytes_.slice(first, MAX_STRINGS)) for first in range(0, len(bytes_), MAX_STRINGS)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def hash_bytes(values: pa.Array) -> Hashes:
    """Return the polynomial of the bytes of each value, with its length."""
    _, offset_buffer, data = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    lengths = np.diff(offsets)
    size = int(offsets[-1] - offsets[0])
    terms = np.zeros(size + 1, np.uint64)
    if size:
        octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
        position = np.arange(size) - np.repeat(offsets[:-1] - offsets[0], lengths)
        powers = np.multiply.accumulate(np.full(int(lengths.max()), FACTOR, np.uint64))
        np.cumsum((octets + np.uint64(1)) * powers[position], out=terms[1:])
    ends = offsets - offsets[0]
    return mix((terms[ends[1:]] - terms[ends[:-1]]) + lengths.astype(np.uint64))


def distinct_hashes(rows: pa.Table, columns: Sequence[str]) -> Hashes:
    """Return the hashes of rows, sorted and without duplicates."""
    if len(columns) == 1:
        rows = pa.table({columns[0]: pc.unique(rows[columns[0]])})
    return np.unique(hash_rows(rows, columns))
