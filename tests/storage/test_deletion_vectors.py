"""Deletion vectors: their forms in a log, and the rows that a commit changes by them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any, Final

import pytest
from pyroaring import BitMap64

from headrace.errors import NotSupportedError, StorageError
from headrace.storage.delta.deletion_vectors import (
    AMONG,
    B85,
    MAGIC,
    VECTOR,
    Z85,
    Descriptor,
    RowSelection,
    read_vector,
    row_changes,
    vector_path,
)

ROWS: Final = [3, 4, 7, 11, 18, 29]
NATIVE: Final = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
"""These rows in a format that a version of Spark has and the protocol has not, although it is its example."""
FILE: Descriptor = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def data_of(rows: list[int]) -> bytes:
    return MAGIC.to_bytes(4, "little") + BitMap64(rows).serialize()


def inline(rows: list[int]) -> Descriptor:
    data = data_of(rows)
    padded = data + bytes(-len(data) % 4)
    text = base64.b85encode(padded).translate(bytes.maketrans(B85, Z85)).decode()
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


INLINE: Final = inline(ROWS)


def framed(rows: list[int]) -> tuple[Descriptor, bytes]:
    data = data_of(rows)
    content = b"\x01" + len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    return {**FILE, "offset": 1, "sizeInBytes": len(data), "cardinality": len(rows)}, content


def parts_of(content: bytes) -> Callable[[str, int, int], bytes]:
    return lambda _, start, length: content[start : start + length]


def test_a_vector_is_in_the_log_or_in_a_file_that_it_names() -> None:
    for rows in (ROWS, [], [2**33]):
        assert read_vector(inline(rows), lambda *_: pytest.fail("a file was read")).tolist() == rows
    with pytest.raises(NotSupportedError, match="another format"):
        read_vector({**INLINE, "pathOrInlineDv": NATIVE, "sizeInBytes": 40}, lambda *_: b"")
    assert vector_path(FILE) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path({**FILE, "storageType": "p", "pathOrInlineDv": "s3://b/v.bin"}) == "s3://b/v.bin"
    assert read_vector(None, lambda *_: b"").tolist() == []


@pytest.mark.parametrize("rows", [[], [0], [5, 2**31, 2**32 + 7], list(range(100_000))])
def test_a_file_has_vectors_with_their_sizes_and_checksums(rows: list[int]) -> None:
    descriptor, content = framed(rows)
    assert read_vector(descriptor, parts_of(content)).tolist() == rows
    for position in (4, 5, len(content) - 1):
        damaged = bytearray(content)
        damaged[position] ^= 1
        with pytest.raises(StorageError, match="is damaged"):
            read_vector(descriptor, parts_of(bytes(damaged)))
    with pytest.raises(StorageError, match="is damaged"):
        read_vector(descriptor, parts_of(content[:-1]))


def test_rows_are_selected_by_their_positions() -> None:
    gone, among = (read_vector(descriptor, lambda *_: b"") for descriptor in (None, INLINE))
    assert RowSelection(among).mask(3, 5).tolist() == [False, False, True, True, False]
    assert RowSelection(gone, among).mask(3, 5).tolist() == [True, True, False, False, True]
    assert not RowSelection(among, among).mask(0, 40).any()


def test_a_commit_changes_the_rows_that_one_of_two_vectors_has() -> None:
    def action(path: str, vector: Descriptor | None = None) -> dict[str, Any]:
        return {"path": path, "partitionValues": {}} | ({VECTOR: vector} if vector else {})

    one, two = {**INLINE, "offset": 1}, {**INLINE, "offset": 2}
    whole = [action("a")], [action("b")]
    assert row_changes(*whole) == (tuple(whole[0]), tuple(whole[1]))
    inserted, deleted = row_changes(
        [action("new"), action("first", one), action("grown", two), action("restored")],
        [action("old", one), action("first"), action("grown", one), action("restored", two)],
    )
    assert [(own["path"], own.get(VECTOR), own.get(AMONG)) for own in inserted] == [
        *(("new", None, None), ("grown", two, one), ("restored", None, two)),
    ]
    assert [(own["path"], own.get(VECTOR), own.get(AMONG)) for own in deleted] == [
        *(("old", one, None), ("first", None, one), ("grown", one, two)),
    ]


def test_a_vector_that_says_more_than_it_has_or_more_than_fits_is_refused() -> None:
    with pytest.raises(StorageError, match="has 6 rows, not 7"):
        read_vector({**INLINE, "cardinality": 7}, lambda *_: b"")
    everything = BitMap64()
    everything.add_range(0, 10**9)
    data = MAGIC.to_bytes(4, "little") + everything.serialize()
    content = b"\x01" + len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    vector = {**FILE, "offset": 1, "sizeInBytes": len(data)}
    with pytest.raises(StorageError, match="has 1000000000 rows, not 6"):
        read_vector({**vector, "cardinality": 6}, parts_of(content))
    with pytest.raises(NotSupportedError, match="are read at most"):
        read_vector({**vector, "cardinality": 10**9}, parts_of(content))
