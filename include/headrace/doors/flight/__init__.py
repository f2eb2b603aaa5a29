"""Flight SQL: queries, updates and ingestion for ADBC, JDBC and everything that speaks them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.doors.options import DoorOptions, door_options
from headrace.errors import ConfigurationError
from headrace.runtime.http_server import with_port

if TYPE_CHECKING:
    from headrace.doors.gate import Gate


class FlightDoor:
    """Opens the server of Flight SQL on a port."""

    name = "flight"

    def __init__(self, gate: Gate, options: DoorOptions) -> None:
        """Remember where to listen."""
        self._gate, self._options, self._port = gate, options, options.port

    @property
    def address(self) -> str:
        """The address at which it listens."""
        return with_port(self._options.host, self._port)

    def start(self) -> None:
        """Listen."""
        from headrace.doors.flight.logins import Logins
        from headrace.doors.flight.server import FlightSqlServer

        scheme = "grpc+tls" if self._options.uses_tls else "grpc"
        self._logins = Logins(self._gate)
        try:
            self._server = FlightSqlServer(f"{scheme}://{self.address}", self._logins, self._certificates())
        except OSError as error:
            raise ConfigurationError(
                f"port {self._port} of {self._options.host} cannot be bound: {error}",
                hint="set HEADRACE_FLIGHT_PORT to a free port",
            ) from None
        self._port = self._server.port

    def stop(self) -> None:
        """Stop, and close all connections."""
        self._server.shutdown()
        self._logins.close_all()

    def _certificates(self) -> list[tuple[bytes, bytes]]:
        if not self._options.uses_tls:
            return []
        try:
            return [(Path(self._options.certificate).read_bytes(), Path(self._options.key).read_bytes())]
        except OSError as error:
            raise ConfigurationError(
                f"the certificate cannot be read: {error}", hint="set HEADRACE_TLS_CERTIFICATE and HEADRACE_TLS_KEY to PEM files"
            ) from None


def create_flight_door(gate: Gate) -> FlightDoor | None:
    """Return the door, or None if it stays closed."""
    options = door_options(gate.context.settings, "flight")
    return None if options is None else FlightDoor(gate, options)
