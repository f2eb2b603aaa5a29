"""Bytes that are nearly valid: seeds with a few changes, and earlier inputs that led somewhere new."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

MAX_BYTES: Final = 16 << 10
INTEGERS: Final = (0, 1, -1, 2, 127, 128, 255, 256, 32_767, 65_535, 65_536, 2**31 - 1, -(2**31), 2**20, 2**24, 2**28, 2**63 - 1)
LAYOUTS: Final = (">b", ">h", ">i", ">q", "<i", "<q")
TOKENS: Final = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\\",
    b"\\\\",
    b'"',
    b"'",
    b"`",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b",",
    b"=",
    b" ",
    b"\n",
    b"\r\n",
    b"\t",
    b":",
    b"%00",
    b"\\ud800",
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"1" * 400,
    b"0.1e-400",
    b"9223372036854775808",
    b"99999999999999999999999999999999999999",
    "ä€😀".encode(),
    b"--",
    b"/*",
)


class Mutator:
    """Makes inputs of seeds, always the same ones for a seed of the random numbers."""

    def __init__(self, seeds: Sequence[bytes], number: int) -> None:
        self._random = random.Random(number)
        self._corpus = list(seeds)
        self._seeds = len(seeds)
        self._changes: Sequence[Callable[[bytearray], None]] = (
            self._set_byte,
            self._set_integer,
            self._set_integer,
            self._insert_token,
            self._insert_token,
            self._delete,
            self._repeat,
            self._splice,
            self._cut,
        )

    def input(self) -> bytes:
        """Return the next input."""
        content = bytearray(self._random.choice(self._corpus))
        for _ in range(1 + int(self._random.expovariate(0.7))):
            self._random.choice(self._changes)(content)
        return bytes(content[:MAX_BYTES])

    def keep(self, content: bytes) -> None:
        """Make further inputs from one that led somewhere new."""
        if len(self._corpus) < self._seeds + 2_000:
            self._corpus.append(content)

    def _at(self, content: bytearray) -> int:
        return self._random.randint(0, len(content))

    def _set_byte(self, content: bytearray) -> None:
        if content:
            content[self._random.randrange(len(content))] = self._random.randrange(256)

    def _set_integer(self, content: bytearray) -> None:
        layout, value, at = self._random.choice(LAYOUTS), self._random.choice(INTEGERS), self._at(content)
        size = struct.calcsize(layout)
        content[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "big" if layout[0] == ">" else "little")

    def _insert_token(self, content: bytearray) -> None:
        at = self._at(content)
        content[at:at] = self._random.choice(TOKENS)

    def _delete(self, content: bytearray) -> None:
        at = self._at(content)
        del content[at : at + self._random.randint(1, 16)]

    def _repeat(self, content: bytearray) -> None:
        at, size = self._at(content), self._random.choice((1, 2, 4, 8, 32))
        times = self._random.choice((1, 2, 3, 10, 100, 1_000))
        content[at:at] = bytes(content[at : at + size]) * times

    def _splice(self, content: bytearray) -> None:
        other, at = self._random.choice(self._corpus), self._at(content)
        start = self._random.randint(0, len(other))
        content[at:at] = other[start : start + self._random.randint(1, 64)]

    def _cut(self, content: bytearray) -> None:
        del content[self._at(content) :]
