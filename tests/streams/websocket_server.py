"""A WebSocket server that keeps the messages it receives, and can stop and start again on its port."""

from __future__ import annotations

import json
import threading
from typing import Any

from websockets.sync.server import Server, ServerConnection, serve

from headrace.runtime.processes import find_free_port


class WebSocketServer:
    """The server, in threads of the test's process. `received` has every text, in order."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.connections: set[ServerConnection] = set()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self.port = find_free_port()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/events?key=1"

    def start(self) -> None:
        self._server = serve(self._keep, "127.0.0.1", self.port)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end all connections. Has no effect if it does not run."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        for connection in list(self.connections):
            connection.close()
        self._server = None

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, each once: those that came again have the id of the first."""
        messages = [json.loads(text) for text in self.received]
        return list({message["messageId"]: message for message in messages}.values())

    def events(self) -> list[dict[str, Any]]:
        """Return the events of all messages, in order."""
        return [event for message in self.messages() for stream in message["streams"] for event in stream["events"]]

    def _keep(self, connection: ServerConnection) -> None:
        self.connections.add(connection)
        try:
            for text in connection:
                assert isinstance(text, str)
                self.received.append(text)
        finally:
            self.connections.discard(connection)
