"""What the settings permit of code: its size."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import LimitError


def limited(parts: Iterator[bytes], name: str, max_bytes: int) -> bytes:
    """Join the parts of a file. Raise `LimitError` as soon as it is too large."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > max_bytes:
            raise LimitError(f"{name} has more than {max_bytes} bytes", hint="use a smaller file, or raise HEADRACE_CODE_MAX_BYTES")
    return bytes(content)
