"""Ids of groups as TDengine computes them, many at a time: from the MD5 of null flags and values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import uid_prefix
from headrace.model.types import DataType, TypeKind
from headrace.streams.definition.digests import md5

UInt64s = npt.NDArray[np.uint64]

FIXED_SIZE_TYPES: Final = {
    TypeKind.BOOL: pa.uint8(),
    TypeKind.TINYINT: pa.int8(),
    TypeKind.SMALLINT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.UTINYINT: pa.uint8(),
    TypeKind.USMALLINT: pa.uint16(),
    TypeKind.UINT: pa.uint32(),
    TypeKind.UBIGINT: pa.uint64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.TIMESTAMP: pa.int64(),
}
SHORT_DECIMAL_DIGITS: Final = 18


@functools.cache
def empty_text() -> pa.Scalar:
    """Return an empty text as bytes. Made on first use, since `pa.scalar` imports pandas."""
    return pa.scalar(b"", pa.large_binary())


def subtable_uids(database: str, names: pa.Array) -> UInt64s:
    """Return the uids of subtables; see `Subtable.uid`."""
    prefix = pa.scalar(uid_prefix(database), pa.large_binary())
    digests = md5(pc.binary_join_element_wise(prefix, names.cast(pa.large_binary()), empty_text()))
    return np.asarray(np.maximum(digests.view("<u8")[:, 0] >> np.uint64(1), np.uint64(1)))


def group_ids(columns: Sequence[pa.Array], types: Sequence[DataType]) -> UInt64s:
    """Return the first 8 bytes, little-endian, of the MD5 over null flags and values; the last 8 if those are zero."""
    flags = np.stack([column.is_null().to_numpy(zero_copy_only=False) for column in columns], axis=1)
    parts = [encode_values(column, type_) for column, type_ in zip(columns, types, strict=True)]
    message = pc.binary_join_element_wise(fixed_size_values(flags.astype(np.uint8)), *parts, empty_text())
    words = md5(message).view("<u8")
    return np.where(words[:, 0] != 0, words[:, 0], words[:, 1])


def encode_values(values: pa.Array, type_: DataType) -> pa.Array:
    """Encode values for the ids of groups: fixed-size types as in memory, others with a length prefix. NULL is empty."""
    is_valid = values.is_valid()
    if type_.kind in FIXED_SIZE_TYPES:
        numbers = values.cast(FIXED_SIZE_TYPES[type_.kind]).fill_null(0).to_numpy(zero_copy_only=False)
        encoded = fixed_size_values(numbers.view(np.uint8).reshape(len(values), -1))
    elif type_.kind is TypeKind.DECIMAL:
        encoded = fixed_size_values(decimal_bytes(values, type_))
    else:
        raw = to_utf32(values) if type_.kind is TypeKind.NCHAR else values.cast(pa.large_binary())
        sizes = pc.binary_length(raw).fill_null(0).to_numpy(zero_copy_only=False).astype("<u2")
        encoded = pc.binary_join_element_wise(fixed_size_values(sizes.view(np.uint8).reshape(len(values), -1)), raw, empty_text())
    return pc.if_else(is_valid, encoded, empty_text())


def fixed_size_values(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return the rows of a matrix of bytes as binary values."""
    count, size = rows.shape
    offsets, data = np.arange(count + 1, dtype=np.int64) * size, np.ascontiguousarray(rows)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def decimal_bytes(values: pa.Array, type_: DataType) -> npt.NDArray[np.uint8]:
    """Return the unscaled values, in 8 or 16 bytes."""
    decimals = pa.concat_arrays([values.cast(pa.decimal128(38, type_.scale or 0))])
    unscaled = np.frombuffer(decimals.buffers()[1], np.uint8)[16 * decimals.offset :].reshape(-1, 16)[: len(values)]
    return unscaled[:, : 8 if (type_.length or 38) <= SHORT_DECIMAL_DIGITS else 16]


def to_utf32(values: pa.Array) -> pa.Array:
    """Encode texts as UTF-32, little-endian."""
    lengths = pc.utf8_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    width = max(1, int(lengths.max(initial=0)))
    characters = np.array(values.fill_null("").to_pylist(), f"<U{width}").view("<u4").reshape(-1, width)
    data = characters[np.arange(width) < lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths * 4)))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
