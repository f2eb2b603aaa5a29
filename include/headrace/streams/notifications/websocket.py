"""Sending of messages to WebSocket servers. Imported only by drivers of streams with a notification: its imports take long."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.proxy import get_proxy
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_connection
from websockets.uri import parse_uri

from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.model.masking import masked
from headrace.model.notifications import FailurePolicy, Notification
from headrace.storage.delta.outbox import Message

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S: Final = 3.0
SEND_TIMEOUT_S: Final = 10.0
"""A server that has stopped reading blocks a write to the connection for at most this long."""
REPLY_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 1.0
RECONNECT_PAUSE_S: Final = 1.0
"""With ON_FAILURE DROP, messages are dropped for this long after a failure before the server is tried again."""


@dataclass(slots=True)
class Receiver:
    """One server: its connection, the last message that it has, and when it may be tried again (monotonic clock)."""

    url: str
    connection: ClientConnection | None = None
    last: tuple[int, int] | None = None
    retry_at: float = 0.0
    dropped: int = 0


class WebSocketSender:
    """Sends messages to servers, to one after the other, each message in one text frame.

    A server has a message once it answers a ping that follows the message. A message that a server has is not sent to it again
    because another server failed; after a restart it may be.
    """

    def __init__(self, notification: Notification, egress: EgressPolicy) -> None:
        self._receivers = [Receiver(url) for url in notification.urls]
        self._policy = notification.on_failure
        self._egress = egress

    def __call__(self, messages: Sequence[Message]) -> None:
        """Send messages; raise if a server may not have them, unless they may be dropped."""
        for receiver in self._receivers:
            last = receiver.last
            new = [message for message in messages if last is None or (message.batch, message.number) > last]
            if new:
                self._send(receiver, new)
                receiver.last = (new[-1].batch, new[-1].number)

    def close(self) -> None:
        """Close the connections. Waits for the servers, so the thread that sends has to call it."""
        for receiver in self._receivers:
            disconnect(receiver)

    def _send(self, receiver: Receiver, messages: Sequence[Message]) -> None:
        if self._policy is FailurePolicy.PAUSE:
            self._send_all(receiver, messages)
        elif receiver.retry_at > time.monotonic():
            drop(receiver, messages, "the server has just failed")
        else:
            try:
                self._send_all(receiver, messages)
            except Exception as error:  # no error of a server may stop the stream
                receiver.retry_at = time.monotonic() + RECONNECT_PAUSE_S
                drop(receiver, messages, masked(f"{type(error).__name__}: {error}"))

    def _send_all(self, receiver: Receiver, messages: Sequence[Message]) -> None:
        """Send messages and wait until the server has them. After a failure the next call connects again."""
        try:
            if receiver.connection is None:
                receiver.connection = connect(receiver.url, self._egress)
            for message in messages:
                receiver.connection.send(message.payload.decode())
            if not receiver.connection.ping().wait(REPLY_TIMEOUT_S):
                raise TimeoutError(f"{receiver.url} does not answer")
        except Exception:  # raised again: whatever failed, the connection is of no use
            disconnect(receiver)
            raise


def drop(receiver: Receiver, messages: Sequence[Message], reason: str) -> None:
    receiver.dropped += len(messages)
    url = masked(receiver.url)
    logger.warning("dropped %d notifications to %s (%d in all): %s", len(messages), url, receiver.dropped, reason)


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


def disconnect(receiver: Receiver) -> None:
    connection, receiver.connection = receiver.connection, None
    if connection is not None:
        connection.close()
