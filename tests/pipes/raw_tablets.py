"""Reads raw tablets as a receiver does, value by value."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

FIXED = {0: ">?", 1: ">i", 2: ">q", 3: ">f", 4: ">d", 8: ">q", 9: ">i"}


@dataclass
class RawTablet:
    device: str
    is_aligned: bool = False
    times: list[int] = field(default_factory=list)
    types: dict[str, int] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)


class Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, size: int) -> bytes:
        part = self.content[self.at : self.at + size]
        assert len(part) == size
        self.at += size
        return part

    def one(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self) -> bytes:
        return self.take(self.one(">i"))

    def flag(self) -> bool:
        value = self.take(1)[0]
        assert value in (0, 1)
        return bool(value)

    def tablet(self) -> RawTablet:
        tablet = RawTablet(self.text().decode())
        rows = self.one(">i")
        assert self.flag()
        for _ in range(self.one(">i")):
            assert self.flag()
            name = self.text().decode()
            tablet.types[name] = self.take(1)[0]
            assert self.take(2) == b"\x00\x00"
            assert self.one(">i") == 0
        assert self.flag()
        tablet.times = [self.one(">q") for _ in range(rows)]
        nulls = self.bit_maps(len(tablet.types), rows)
        assert self.flag()
        for (name, type_), mask in zip(tablet.types.items(), nulls, strict=True):
            assert self.flag()
            values = [self.value(type_) for _ in range(rows)]
            tablet.values[name] = [None if is_null else value for value, is_null in zip(values, mask, strict=True)]
        tablet.is_aligned = self.flag()
        return tablet

    def bit_maps(self, columns: int, rows: int) -> list[list[bool]]:
        if not self.flag():
            return [[False] * rows] * columns
        return [self.bit_map(rows) if self.flag() else [False] * rows for _ in range(columns)]

    def bit_map(self, rows: int) -> list[bool]:
        assert self.one(">i") == rows
        packed = self.text()
        assert len(packed) == rows // 8 + 1
        return [bool(packed[row // 8] >> row % 8 & 1) for row in range(rows)]

    def value(self, type_: int) -> Any:
        if type_ in FIXED:
            return self.one(FIXED[type_])
        assert self.flag()
        content = self.text()
        return content if type_ == 10 else content.decode()


def read_tablets(parts: list[bytes]) -> list[RawTablet]:
    """Return tablets; nothing may follow them."""
    reader = Reader(b"".join(parts))
    tablets = [reader.tablet() for _ in parts]
    assert reader.at == len(reader.content)
    return tablets
