"""The client of MQTT, whose connections are opened by a function that is handed in. Imported only when there is a connection."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client


class CheckedClient(Client):
    """A client that opens its connections, the first one and those after a break, by a function."""

    def __init__(self, connect: Callable[[float], socket.socket], *arguments: Any, **options: Any) -> None:
        """Take the function, which gets the time limit in seconds, and the arguments of a client."""
        super().__init__(*arguments, **options)
        self._connect_checked = connect

    def _create_socket_connection(self) -> socket.socket:
        return self._connect_checked(self._connect_timeout)
