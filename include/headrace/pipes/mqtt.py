"""What the MQTT source and sink share: settings, and a connection whose client works in a thread of its own."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.errors import ConfigurationError, DatabaseError, EgressDeniedError, OperationalError, TerminalError
from headrace.pipes.attributes import PipeAttributes, pipe_error

if TYPE_CHECKING:
    from paho.mqtt.client import Client

LOG: Final = logging.getLogger(__name__)
CONNECT_S: Final = 10.0
"""How long a broker may take to accept a connection, in seconds."""
MAX_RECEIVED: Final = 65_535
VERSIONS: Final = ("5", "3.1.1")

INSERT: Final = "insert"
DELETE: Final = "delete"
STATEMENT: Final = "statement"


@dataclass(frozen=True, slots=True)
class MqttOptions:
    """Where a broker is, and how to connect to it.

    Attributes:
        host: The host.
        port: The port.
        user: The user; empty for none.
        password: The password.
        version: The version of the protocol.
        uses_tls: Whether the connection is encrypted.
        trusted: The file with the certificates that are trusted; empty for those of the system.
    """

    host: str
    port: int
    user: str
    password: str
    version: str
    uses_tls: bool
    trusted: str

    @classmethod
    def of(cls, attributes: PipeAttributes) -> MqttOptions:
        """Return the options that attributes name, with checks."""
        uses_tls = attributes.boolean("ssl.enable", default=False)
        return cls(
            host=attributes.text("host", "ip", default="127.0.0.1"),
            port=attributes.integer("port", default=8883 if uses_tls else 1883),
            user=attributes.text("user", "username"),
            password=attributes.text("password"),
            version=attributes.choice("protocol.version", options=VERSIONS, default="5"),
            uses_tls=uses_tls,
            trusted=attributes.text("ssl.trust-store-path"),
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The broker, and the file."""
        broker = Endpoint.at(EndpointKind.MQTT, self.host, self.port)
        return (broker, Endpoint(EndpointKind.LOCATION, self.trusted)) if self.trusted else (broker,)

    @property
    def address(self) -> str:
        """The host and the port."""
        return f"{self.host}:{self.port}"


def endpoints(attributes: PipeAttributes) -> tuple[Endpoint, ...]:
    """Return the broker and the file that attributes name."""
    return MqttOptions.of(attributes).endpoints


def positive(attributes: PipeAttributes, key: str, default: int) -> int:
    """Return a whole number above 0; raise `ProgrammingError` for another value."""
    value = attributes.integer(key, default=default)
    if value <= 0:
        raise pipe_error(f"{key} must be > 0, but got {value}")
    return value


class Connection:
    """A connection to a broker. If it breaks, the client connects again."""

    def __init__(
        self,
        options: MqttOptions,
        client_id: str,
        egress: EgressPolicy,
        *,
        is_persistent: bool,
        expiry_s: int = 0,
        max_received: int = 0,
    ) -> None:
        """Create a client.

        Args:
            options: Where the broker is.
            client_id: The name of the session; empty for one that the broker chooses.
            egress: What the connection may reach.
            is_persistent: Whether the broker keeps the session, and its messages, while there is no connection.
            expiry_s: How long it does so, in seconds.
            max_received: How many messages the broker may send before the first is acknowledged; 0 for its default.
        """
        self._options = options
        self._egress = egress
        self._connected = threading.Event()
        self._answered = threading.Event()
        self._refused: Any = None
        self._denied: EgressDeniedError | None = None
        self._broken = time.monotonic()
        self._is_persistent, self._expiry_s, self._max_received = is_persistent, expiry_s, max_received
        self.on_connected: Callable[[], None] = lambda: None
        self.client = self._create(client_id)

    def _create(self, client_id: str) -> Client:
        from paho.mqtt.client import MQTTv5, MQTTv311
        from paho.mqtt.enums import CallbackAPIVersion

        from headrace.pipes.mqtt_client import CheckedClient

        is_v5 = self._options.version == "5"
        client = CheckedClient(
            self._connect,
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if is_v5 else not self._is_persistent,
            protocol=MQTTv5 if is_v5 else MQTTv311,
            manual_ack=self._is_persistent,
        )
        if self._options.user:
            client.username_pw_set(self._options.user, self._options.password)
        if self._options.uses_tls:
            try:
                client.tls_set(ca_certs=self._egress.location(self._options.trusted) if self._options.trusted else None)
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"the certificates in {self._options.trusted} cannot be read: {error}") from None
        client.on_connect = self._accepted
        client.on_disconnect = self._lost
        client.reconnect_delay_set(1, 10)
        return client

    def _connect(self, timeout_s: float) -> socket.socket:
        """Return a socket to an address of the broker that is allowed now."""
        try:
            return self._egress.connect(self._options.endpoints[0], timeout_s)
        except EgressDeniedError as error:
            self._denied = error
            raise OSError(error.message) from error

    def open(self) -> None:
        """Connect, and wait until the broker has accepted the connection.

        Raises:
            OperationalError: The broker cannot be reached.
            TerminalError: The broker refuses the user.
            EgressDeniedError: It must not be connected to.
        """
        try:
            self.client.connect(self._options.host, self._options.port, **self._arguments())
        except (OSError, ValueError) as error:
            raise self._denied or self._unreachable(str(error)) from None
        self.client.loop_start()
        self._answered.wait(CONNECT_S)
        if not self._connected.is_set():
            self.close()
            raise self._refusal() if self._refused is not None else self._unreachable("it does not answer")

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of `connect` for version 5: the client has those of version 3.1.1."""
        if self._options.version != "5":
            return {}
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        if self._is_persistent:
            properties.SessionExpiryInterval = self._expiry_s
        if self._max_received:
            properties.ReceiveMaximum = min(MAX_RECEIVED, self._max_received)
        return {"clean_start": not self._is_persistent, "properties": properties}

    def _accepted(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._refused = reason
        else:
            self._refused = self._denied = None
            self.on_connected()
            self._connected.set()
        self._answered.set()

    def _lost(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if self._connected.is_set():
            self._broken = time.monotonic()
            LOG.info("connection to MQTT broker %s lost: %s", self._options.address, reason)
        self._connected.clear()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection at present."""
        return self._connected.is_set()

    def check(self, patience_s: float = CONNECT_S) -> None:
        """Raise an error if there has been no connection for a while."""
        if self._connected.is_set() or time.monotonic() - self._broken < patience_s:
            return
        raise self._denied or (self._refusal() if self._refused is not None else self._unreachable("the connection is lost"))

    def _refusal(self) -> DatabaseError:
        text = f"the MQTT broker at {self._options.address} refuses the connection: {self._refused}"
        return TerminalError(text, hint="check user, password and the rights of the user")

    def _unreachable(self, reason: str) -> OperationalError:
        return OperationalError(
            f"the MQTT broker at {self._options.address} cannot be reached: {reason}",
            hint="check host and port, and that the broker runs",
        )

    def close(self) -> None:
        """Disconnect, and end the thread."""
        self.client.disconnect()
        self.client.loop_stop()
