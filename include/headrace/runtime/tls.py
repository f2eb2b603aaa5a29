"""The TLS of servers: certificates that are read again when their files change."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import ConfigurationError

logger = logging.getLogger(__name__)


def server_context(certificate: str, key: str, protocols: Sequence[str] = ()) -> ssl.SSLContext | None:
    """Return what encrypts connections; None if the name of the certificate is empty. New connections get a changed certificate.

    `protocols` are those that clients may ask for by ALPN.

    Raises:
        ConfigurationError: Certificate or key cannot be read, or they do not belong together.
    """
    if not certificate:
        return None
    context = load_context(certificate, key, protocols)
    current, versions = context, file_versions(certificate, key)

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal current, versions
        present = file_versions(certificate, key)
        if present != versions:
            try:
                current, versions = load_context(certificate, key, protocols), present
            except ConfigurationError as error:
                # Of two files that change one after the other, the first does not fit until the second has changed.
                logger.warning("keeping the former certificate: %s", error.message)
        connection.context = current

    context.sni_callback = choose
    return context


def load_context(certificate: str, key: str, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """Return a context with the certificate and key of the files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocols:
        context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"certificate {certificate} cannot be used: {error}",
            hint="HEADRACE_TLS_CERTIFICATE and HEADRACE_TLS_KEY are PEM files that belong together",
        ) from None
    return context


def file_versions(certificate: str, key: str) -> tuple[int, ...]:
    """Return when the files were changed; 0 for one that is missing."""
    paths = (Path(certificate), Path(key))
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
