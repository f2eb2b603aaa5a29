"""A webhook: an HTTP server that keeps what is posted to it, and can refuse it first."""

from __future__ import annotations

import ssl
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.streams.receiving import ReceivingServer

Answer = tuple[int, dict[str, str]]
"""A status and headers."""


class WebhookServer(ReceivingServer):
    """The server, in threads of the test's process. It answers with `answers` first, then with 204; it keeps what it accepts."""

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        super().__init__()
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, Message[str, str]]] = []
        self._certificate = certificate
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self.port}/hook?key=1"

    def start(self) -> None:
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, headers = keeper.keep(self.path, self.headers, text)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = None

    def keep(self, path: str, headers: Message[str, str], text: str) -> Answer:
        """Take a request, and return the answer."""
        self.requests.append((path, headers))
        if self.answers:
            return self.answers.pop(0)
        self.received.append(text)
        return 204, {}
