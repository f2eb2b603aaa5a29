"""The requests of pipes: handshakes and batches of tablets, compressed if that is asked for."""

from __future__ import annotations

import lzma
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.pipes.iotdb.columns import encode_text

VERSION: Final = 1
TABLET_BATCH: Final = 6
HANDSHAKE: Final = 51
COMPRESSED: Final = 300
CODECS: Final[dict[str, tuple[int, str]]] = {
    "snappy": (0, "snappy"),
    "gzip": (1, "gzip"),
    "lz4": (2, "lz4_raw"),
    "zstd": (3, "zstd"),
}
"""IoTDB's number of each compression, and Arrow's name."""
LZMA2: Final = 4

Compress = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Request:
    """What a pipe sends.

    Attributes:
        kind: The type of the request.
        body: Its content.
        tablets: How many tablets it has.
    """

    kind: int
    body: bytes
    tablets: int = 0


def handshake(settings: Mapping[str, str]) -> Request:
    """Return the request with which a pipe introduces itself."""
    pairs = (encode_text(key) + encode_text(value) for key, value in settings.items())
    return Request(HANDSHAKE, struct.pack(">i", len(settings)) + b"".join(pairs))


def tablet_batch(tablets: Sequence[bytes]) -> Request:
    """Return a request with raw tablets; it has none in the two other layouts that batches may have."""
    return Request(TABLET_BATCH, struct.pack(">iii", 0, 0, len(tablets)) + b"".join(tablets), len(tablets))


def batches(tablets: Iterable[bytes], max_bytes: int) -> Iterator[Request]:
    """Yield tablets in requests of about this many bytes."""
    held: list[bytes] = []
    size = 0
    for tablet in tablets:
        if held and size + len(tablet) > max_bytes:
            yield tablet_batch(held)
            held, size = [], 0
        held.append(tablet)
        size += len(tablet)
    if held:
        yield tablet_batch(held)


class Compressor:
    """Compresses requests by one or more methods, one after the other."""

    def __init__(self, names: Sequence[str], zstd_level: int) -> None:
        self._methods = [compression(name, zstd_level) for name in names]

    def apply(self, request: Request) -> Request:
        """Return a request compressed; the same if there is no method."""
        if not self._methods:
            return request
        content = struct.pack(">bh", VERSION, request.kind) + request.body
        header = struct.pack(">b", len(self._methods))
        for number, compress in self._methods:
            header += struct.pack(">bi", number, len(content))
            content = compress(content)
        return Request(COMPRESSED, header + content, request.tablets)


def compression(name: str, zstd_level: int) -> tuple[int, Compress]:
    """Return IoTDB's number of a method, and what compresses by it."""
    if name == "lzma2":
        return LZMA2, lzma.compress
    number, codec_name = CODECS[name]
    codec = pa.Codec(codec_name, compression_level=zstd_level) if name == "zstd" else pa.Codec(codec_name)
    return number, lambda content: codec.compress(content, asbytes=True)
