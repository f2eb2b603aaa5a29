"""The TLS of doors: certificates that are read again when their files change."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.doors.options import DoorOptions

logger = logging.getLogger(__name__)


def server_context(options: DoorOptions, protocols: Sequence[str] = ()) -> ssl.SSLContext | None:
    """Return what encrypts connections; None if the settings name no certificate. New connections get a changed certificate.

    `protocols` are those that clients may ask for by ALPN.

    Raises:
        ConfigurationError: Certificate or key cannot be read, or they do not belong together.
    """
    if not options.uses_tls:
        return None
    context = load_context(options, protocols)
    current, versions = context, file_versions(options)

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal current, versions
        present = file_versions(options)
        if present != versions:
            try:
                current, versions = load_context(options, protocols), present
            except ConfigurationError as error:
                # Of two files that change one after the other, the first does not fit until the second has changed.
                logger.warning("keeping the former certificate: %s", error.message)
        connection.context = current

    context.sni_callback = choose
    return context


def load_context(options: DoorOptions, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """Return a context with the certificate and key of the files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocols:
        context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"certificate {options.certificate} cannot be used: {error}",
            hint="HEADRACE_TLS_CERTIFICATE and HEADRACE_TLS_KEY are PEM files that belong together",
        ) from None
    return context


def file_versions(options: DoorOptions) -> tuple[int, ...]:
    """Return when the files were changed; 0 for one that is missing."""
    paths = (Path(options.certificate), Path(options.key))
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
