"""A WebSocket server that keeps the messages it receives, and can stop and start again on its port."""

from __future__ import annotations

import threading

from websockets.sync.server import Server, ServerConnection, serve

from tests.streams.receiving import ReceivingServer


class WebSocketServer(ReceivingServer):
    """The server, in threads of the test's process."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: set[ServerConnection] = set()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/events?key=1"

    def start(self) -> None:
        self._server = serve(self._keep, "127.0.0.1", self.port)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        for connection in list(self.connections):
            connection.close()
        self._server = None

    def _keep(self, connection: ServerConnection) -> None:
        self.connections.add(connection)
        try:
            for text in connection:
                assert isinstance(text, str)
                self.received.append(text)
        finally:
            self.connections.discard(connection)
