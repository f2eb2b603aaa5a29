"""What the settings permit of code: the places that it comes from, and its size."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from headrace.errors import ConfigurationError, LimitError
from headrace.settings import Settings


def is_allowed_uri(uri: str, settings: Settings) -> bool:
    """Return whether the settings allow code from a URI: its host is that of a prefix, and its path is below that of the prefix."""
    address = _address(uri)
    prefixes = [_address(prefix.strip()) for prefix in settings.code_uris.split(",") if prefix.strip()]
    if address is None or ".." in address[2]:
        return False
    return any(
        prefix is not None and prefix[:2] == address[:2] and prefix[2] == address[2][: len(prefix[2])] for prefix in prefixes
    )


def limited(parts: Iterator[bytes], name: str, max_bytes: int) -> bytes:
    """Join the parts of a file. Raise `LimitError` as soon as it is too large."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > max_bytes:
            raise LimitError(f"{name} has more than {max_bytes} bytes", hint="use a smaller file, or raise HEADRACE_CODE_MAX_BYTES")
    return bytes(content)


def _address(uri: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return scheme, host with port, and the nodes of the path of a URI; None for one with a user's name."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{uri} is not a valid URI: {error}", hint="check the URI") from None
    if "@" in parts.netloc or not parts.hostname:
        return None
    scheme = "s3" if parts.scheme == "s3a" else parts.scheme.lower()
    default = {"https": 443}.get(scheme)
    nodes = tuple(node for node in unquote(parts.path).split("/") if node not in ("", "."))
    return scheme, f"{parts.hostname}:{port or default}", nodes
