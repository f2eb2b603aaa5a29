"""The server of the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.doors.options import DoorOptions, door_options
from headrace.runtime.tls import server_context

if TYPE_CHECKING:
    from headrace.doors.gate import Gate
    from headrace.doors.tdengine.ingest import Ingestion
    from headrace.runtime.http_server import Endpoint

NAME = "tdengine"


class TDengineDoor:
    """Serves TDengine's REST interface and schemaless writing. See `runtime.door.Door`."""

    def __init__(self, gate: Gate, options: DoorOptions) -> None:
        """Create it; `options` say where it listens."""
        self._gate = gate
        self._options = options
        self._endpoint: Endpoint | None = None
        self._ingestion: Ingestion | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return NAME

    @property
    def address(self) -> str:
        """Where it listens, as host:port; without a port before it is started on any."""
        port = self._options.port if self._endpoint is None else self._endpoint.port
        return f"{self._options.host}:{port}"

    def start(self) -> None:
        """Start serving."""
        from headrace.doors.tdengine.access import Access
        from headrace.doors.tdengine.app import create_app
        from headrace.doors.tdengine.small_writes import small_write_protocol
        from headrace.runtime.http_server import Endpoint

        options, settings = self._options, self._gate.context.settings
        access = Access(self._gate.authenticate, settings)
        app, ingestion = create_app(self._gate, access)
        self._ingestion = ingestion
        self._endpoint = Endpoint(
            app,
            options.port,
            options.host,
            tls=server_context(options.certificate, options.key),
            max_connections=settings.door_connections,
            setting="HEADRACE_TDENGINE_PORT",
            trusted_proxies=settings.trusted_proxies,
            protocol=small_write_protocol(ingestion),
        )
        self._endpoint.start()

    def stop(self) -> None:
        """Stop; requests in progress have two seconds to finish."""
        if self._endpoint is not None:
            self._endpoint.stop()
        if self._ingestion is not None:
            self._ingestion.close()


def create_tdengine_door(gate: Gate) -> TDengineDoor | None:
    """Return the door, unless the settings leave it closed."""
    options = door_options(gate.context.settings, NAME)
    return None if options is None else TDengineDoor(gate, options)
