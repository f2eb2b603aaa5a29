"""Sending of messages to WebSocket servers: each message is a text frame."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.proxy import get_proxy
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_connection
from websockets.uri import parse_uri

from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.storage.delta.outbox import Message

OPEN_TIMEOUT_S: Final = 3.0
SEND_TIMEOUT_S: Final = 10.0
"""A server that has stopped reading blocks a write to the connection for at most this long."""
REPLY_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 1.0


class WebSocketChannel:
    """A connection to one server, which has a message once it answers a ping that follows it."""

    def __init__(self, url: str, egress: EgressPolicy) -> None:
        self._url = url
        self._egress = egress
        self.connection: ClientConnection | None = None

    def send(self, messages: Sequence[Message]) -> Iterator[Message]:
        """See `Channel`."""
        if self.connection is None:
            self.connection = connect(self._url, self._egress)
        for message in messages:
            self.connection.send(message.payload.decode())
        if not self.connection.ping().wait(REPLY_TIMEOUT_S):
            raise TimeoutError(f"{self._url} does not answer")
        yield messages[-1]

    def close(self) -> None:
        """See `Channel`."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class DirectConnection(ClientConnection):
    """A connection that follows no redirect, which would send the messages elsewhere, and whose writes do not block forever."""

    def __init__(self, sock: socket.socket, protocol: ClientProtocol, **options: Any) -> None:
        sock.settimeout(SEND_TIMEOUT_S)
        super().__init__(sock, protocol, **options)

    def handshake(self, *args: Any, **options: Any) -> None:
        try:
            super().handshake(*args, **options)
        except InvalidStatus as error:
            raise ConnectionError(f"the server answers with HTTP {error.response.status_code}") from None


def connect(url: str, egress: EgressPolicy) -> ClientConnection:
    """Open a connection, if that is allowed now. The certificate of a `wss` address is verified.

    A proxy of the environment resolves the name itself, and decides which addresses it reaches.
    """
    endpoint = Endpoint(EndpointKind.NOTIFY, url)
    egress.check(endpoint)
    is_direct = get_proxy(parse_uri(url)) is None
    return open_connection(
        url,
        sock=egress.connect(endpoint, OPEN_TIMEOUT_S) if is_direct else None,
        open_timeout=OPEN_TIMEOUT_S,
        close_timeout=CLOSE_TIMEOUT_S,
        compression=None,
        create_connection=DirectConnection,
    )
