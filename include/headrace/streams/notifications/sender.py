"""Sending of messages to the servers of a notification, whatever their protocol.

Imported only by drivers of streams with a notification: the imports take long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.egress import EgressPolicy
from headrace.errors import NotificationRejectedError
from headrace.model.masking import masked
from headrace.model.notifications import WEBHOOK_SCHEMES, FailurePolicy, Notification
from headrace.storage.delta.outbox import Message
from headrace.streams.notifications.webhook import BusyServerError, WebhookChannel
from headrace.streams.notifications.websocket import WebSocketChannel

logger = logging.getLogger(__name__)

RECONNECT_PAUSE_S: Final = 1.0
"""With ON_FAILURE DROP, messages are dropped for this long after a failure before the server is tried again."""


class Channel(Protocol):
    """The way to one server."""

    def send(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Send messages in order, and yield one whenever the server has it and all before it. Raise if it may not have the rest.

        After a failure the next call connects again.
        """

    def close(self) -> None:
        """Close the connection, if there is one. May wait for the server."""


@dataclass(slots=True)
class Receiver:
    """One server, the last message that it has, and when it may be tried again (monotonic clock)."""

    url: str
    channel: Channel
    last: tuple[int, int] | None = None
    retry_at: float = 0.0
    dropped: int = 0

    def missing(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that the server does not have."""
        return [message for message in messages if self.last is None or (message.batch, message.number) > self.last]

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; raise if the server may not have all of them."""
        if self.retry_at > time.monotonic():
            raise ConnectionError("the server has just failed")
        try:
            for message in self.channel.send(messages):
                self.pass_over(message)
        except Exception as error:  # raised again: whatever failed, the connection is of no use
            self.channel.close()
            if isinstance(error, BusyServerError):
                self.retry_at = time.monotonic() + error.retry_after_s
            raise

    def pass_over(self, message: Message) -> None:
        """Send neither a message nor those before it again."""
        self.last = (message.batch, message.number)

    def drop(self, messages: Sequence[Message], reason: str) -> None:
        """Do not send messages."""
        self.dropped += len(messages)
        url = masked(f"NOTIFY {self.url}")
        logger.warning("dropped %d messages of %s (%d in all): %s", len(messages), url, self.dropped, reason)
        self.pass_over(messages[-1])


class NotificationSender:
    """Sends messages to servers, to one after the other.

    A message that a server has is not sent to it again because another server failed; after a restart it may be.
    """

    def __init__(self, notification: Notification, egress: EgressPolicy) -> None:
        self._receivers = [Receiver(url, channel_of(url, egress)) for url in notification.urls]
        self._policy = notification.on_failure

    def __call__(self, messages: Sequence[Message]) -> None:
        """Send messages; raise if a server may not have them, unless they may be dropped."""
        for receiver in self._receivers:
            while missing := receiver.missing(messages):
                if self._policy is FailurePolicy.PAUSE:
                    receiver.send(missing)
                else:
                    send_or_drop(receiver, missing)

    def close(self) -> None:
        """Close the connections. Waits for the servers, so the thread that sends has to call it."""
        for receiver in self._receivers:
            receiver.channel.close()


def channel_of(url: str, egress: EgressPolicy) -> Channel:
    """Return the way to the server at an address."""
    is_webhook = url.partition(":")[0].lower() in WEBHOOK_SCHEMES
    return WebhookChannel(url, egress) if is_webhook else WebSocketChannel(url, egress)


def send_or_drop(receiver: Receiver, messages: Sequence[Message]) -> None:
    """Send messages. Those that cannot be delivered are dropped, of rejected ones only the first."""
    try:
        receiver.send(messages)
    except NotificationRejectedError as error:
        receiver.drop(receiver.missing(messages)[:1], error.message)
    except Exception as error:  # no error of a server may stop the stream
        receiver.retry_at = max(receiver.retry_at, time.monotonic() + RECONNECT_PAUSE_S)
        receiver.drop(receiver.missing(messages), masked(f"{type(error).__name__}: {error}"))
