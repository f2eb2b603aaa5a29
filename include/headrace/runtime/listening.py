"""Which addresses servers may bind without TLS."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.settings import Settings


def check_endpoint(settings: Settings) -> None:
    """Raise `ConfigurationError` if an snode's HTTP endpoint, which does not encrypt, would be open to other machines unasked."""
    if not (settings.http_without_tls or is_loopback(settings.http_host)):
        raise ConfigurationError(
            f"the HTTP endpoint would be open to other machines at {settings.http_host} without TLS",
            hint="unset HEADRACE_HTTP_HOST, or set HEADRACE_HTTP_WITHOUT_TLS=true in a private network or behind a proxy with TLS",
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
