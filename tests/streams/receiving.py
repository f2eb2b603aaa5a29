"""What servers of notifications have in common, whatever their protocol."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from headrace.runtime.processes import find_free_port


class ReceivingServer(ABC):
    """A server that keeps the messages it receives. `received` has every text, in order."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.port = find_free_port()

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for NOTIFY."""

    @abstractmethod
    def start(self) -> None:
        """Listen, on the same port each time."""

    @abstractmethod
    def stop(self) -> None:
        """Stop listening and end all connections. Has no effect if it does not run."""

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, each once: those that came again have the id of the first."""
        messages = [json.loads(text) for text in self.received]
        return list({message["messageId"]: message for message in messages}.values())

    def events(self) -> list[dict[str, Any]]:
        """Return the events of all messages, in order."""
        return [event for message in self.messages() for stream in message["streams"] for event in stream["events"]]
