"""Where a door listens, according to the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError
from headrace.model.addresses import parse_doors
from headrace.runtime.listening import check_certificate, is_loopback

if TYPE_CHECKING:
    from headrace.settings import Settings


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """Where a door listens.

    Attributes:
        host: The address that it binds.
        port: The port; 0 for any free port.
        certificate: The PEM file of its certificate; empty if connections are not encrypted.
        key: The PEM file of the certificate's key.
    """

    host: str
    port: int
    certificate: str = ""
    key: str = ""

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.certificate != ""


def door_options(settings: Settings, name: str) -> DoorOptions | None:
    """Return where a door listens, or None if the settings leave it closed.

    Raises:
        ConfigurationError: It would be open to other machines without TLS.
    """
    if name not in parse_doors(settings.doors):
        return None
    check_certificate(settings)
    options = DoorOptions(settings.door_host, getattr(settings, f"{name}_port"), settings.tls_certificate, settings.tls_key)
    if not (options.uses_tls or settings.doors_without_tls or is_loopback(options.host)):
        raise ConfigurationError(
            f"door {name} would be open to other machines at {options.host} without TLS",
            hint="set HEADRACE_TLS_CERTIFICATE and HEADRACE_TLS_KEY, or HEADRACE_DOORS_WITHOUT_TLS=true behind a proxy",
        )
    return options
