"""Bodies of requests: read up to a limit, and decompressed up to the same."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from headrace.errors import DataError, LimitError

if TYPE_CHECKING:
    from starlette.requests import Request

GZIP: Final = 16 + zlib.MAX_WBITS


class TooLargeError(LimitError, code=LimitError.code):
    """The body of a request is larger than is read."""


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        TooLargeError: It is larger than `max_bytes`.
        DataError: It is compressed otherwise than by gzip, or damaged.
    """
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise too_large(max_bytes)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise too_large(max_bytes)
        parts.append(part)
    body = b"".join(parts)
    encoding = request.headers.get("content-encoding", "identity").lower()
    return body if encoding == "identity" else decompressed(body, encoding, max_bytes)


def decompressed(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a compressed body as it was; see `read_body`."""
    if encoding != "gzip":
        raise DataError(f"a body encoded by {encoding!r} cannot be read", hint="use gzip, or none")
    decompressor = zlib.decompressobj(GZIP)
    try:
        content = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise DataError(f"the body is not gzip: {error}", hint="send it again") from None
    if len(content) > max_bytes:
        raise too_large(max_bytes)
    if not decompressor.eof:
        raise DataError("the body ends early", hint="send it again")
    return content


def too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(f"the request has more than {max_bytes} bytes", hint="divide it among several requests")
