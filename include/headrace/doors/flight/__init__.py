"""Flight SQL: queries, updates and ingestion for ADBC, JDBC and everything that speaks them."""

from __future__ import annotations

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
        from headrace.doors.flight.front import Front

        self._gate, self._options = gate, options
        self._front = Front(options, gate.context.settings.door_connections)

    @property
    def address(self) -> str:
        """The address at which it listens."""
        return with_port(self._options.host, self._front.port)

    def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The port cannot be bound, or the certificate cannot be read.
        """
        from headrace.doors.flight.logins import Logins
        from headrace.doors.flight.server import FlightSqlServer

        self._logins = Logins(self._gate)
        self._server = FlightSqlServer(self._front, self._logins)
        try:
            self._front.start()
        except ConfigurationError:
            self._server.shutdown()
            raise

    def stop(self) -> None:
        """Stop, and close all connections."""
        self._front.stop()
        self._server.shutdown()
        self._logins.close_all()


def create_flight_door(gate: Gate) -> FlightDoor | None:
    """Return the door, or None if it stays closed."""
    options = door_options(gate.context.settings, "flight")
    return None if options is None else FlightDoor(gate, options)
