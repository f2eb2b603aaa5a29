"""Which addresses servers may bind without TLS."""

from __future__ import annotations

import ipaddress
import ssl
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError
from headrace.runtime.tls import server_context

if TYPE_CHECKING:
    from headrace.settings import Settings


def check_endpoint(settings: Settings) -> None:
    """Raise `ConfigurationError` if an snode's HTTP endpoint would be open to other machines in clear without having been asked."""
    check_certificate(settings)
    if not (settings.tls_certificate or settings.http_without_tls or is_loopback(settings.http_host)):
        raise ConfigurationError(
            f"the HTTP endpoint would be open to other machines at {settings.http_host} without TLS",
            hint="set HEADRACE_TLS_CERTIFICATE and HEADRACE_TLS_KEY, or HEADRACE_HTTP_WITHOUT_TLS=true in a private network or "
            "behind a proxy with TLS",
        )


def check_certificate(settings: Settings) -> None:
    """Raise `ConfigurationError` if the settings name a certificate or a key alone."""
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise ConfigurationError(
            "TLS needs a certificate and its key", hint="set both HEADRACE_TLS_CERTIFICATE and HEADRACE_TLS_KEY, or neither"
        )


def endpoint_context(settings: Settings) -> ssl.SSLContext | None:
    """Return what encrypts the HTTP endpoint; None if only this machine reaches it, or if the settings want none.

    Raises:
        ConfigurationError: The certificate cannot be read.
    """
    if settings.http_without_tls or is_loopback(settings.http_host):
        return None
    return server_context(settings.tls_certificate, settings.tls_key)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
