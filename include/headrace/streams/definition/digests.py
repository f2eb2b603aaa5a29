"""MD5 of many short messages at once, computed with NumPy: a call for each message would take longer than everything else."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Digests = npt.NDArray[np.uint8]
UInt32s = npt.NDArray[np.uint32]

BLOCK_BYTES: Final = 64
MAX_LANES: Final = 1 << 14
"""Blocks of messages to compute at once, so that they stay in the processor's cache."""
ROUND_SHIFTS: Final = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
SHIFTS: Final = tuple(shift for shifts in ROUND_SHIFTS for shift in shifts * 4)
SINES: Final = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2**32).astype(np.uint32)
START: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)


def md5(messages: pa.Array) -> Digests:
    """Return the digests of binary values, 16 bytes each; that of NULL is arbitrary."""
    messages = messages.cast(pa.large_binary())
    blocks = (np.diff(offsets_of(messages)) + 8) // BLOCK_BYTES + 1
    digests = np.empty((len(messages), 16), np.uint8)
    for count in np.unique(blocks):
        index = np.flatnonzero(blocks == count)
        for part in np.array_split(index, len(index) * count // MAX_LANES + 1):
            digests[part] = digest_blocks(pad(messages.take(pa.array(part)), int(count)))
    return digests


def offsets_of(values: pa.Array) -> npt.NDArray[np.int64]:
    offsets = values.buffers()[1]
    return np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1] if offsets else np.zeros(1, np.int64)


def pad(messages: pa.Array, blocks: int) -> npt.NDArray[np.uint8]:
    lengths = np.diff(offsets_of(messages))
    padded = np.zeros((len(messages), blocks * BLOCK_BYTES), np.uint8)
    data = messages.buffers()[2]
    if data is not None:
        first, last = offsets_of(messages)[[0, -1]]
        is_message = np.arange(padded.shape[1]) < lengths[:, None]
        padded[is_message] = np.frombuffer(data, np.uint8)[first:last]
    padded[np.arange(len(padded)), lengths] = 0x80
    padded.view("<u8")[:, -1] = lengths * 8
    return padded


def digest_blocks(padded: npt.NDArray[np.uint8]) -> Digests:
    words = padded.view("<u4").reshape(len(padded), -1, 16)
    state = [np.full(len(padded), word, np.uint32) for word in START]
    for block in range(words.shape[1]):
        added = digest_block(np.ascontiguousarray(words[:, block].T), *state)
        state = [one + other for one, other in zip(state, added, strict=True)]
    return np.ascontiguousarray(np.stack(state, axis=1).astype("<u4")).view(np.uint8)


def digest_block(words: UInt32s, a: UInt32s, b: UInt32s, c: UInt32s, d: UInt32s) -> tuple[UInt32s, UInt32s, UInt32s, UInt32s]:
    """Return what a block of each message, as 16 rows of words, adds to the state (RFC 1321)."""
    for step in range(64):
        if step < 16:
            mixed, word = d ^ (b & (c ^ d)), step
        elif step < 32:
            mixed, word = c ^ (d & (b ^ c)), 5 * step + 1
        elif step < 48:
            mixed, word = b ^ c ^ d, 3 * step + 5
        else:
            mixed, word = c ^ (b | ~d), 7 * step
        mixed += a
        mixed += SINES[step]
        mixed += words[word % 16]
        shift = np.uint32(SHIFTS[step])
        rotated = mixed << shift
        rotated |= mixed >> (np.uint32(32) - shift)
        rotated += b
        a, b, c, d = d, rotated, b, c
    return a, b, c, d
