"""An HTTPS server in the test process, with a certificate of its own."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CERTIFICATE = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"


@dataclass
class HttpsServer:
    """A running server: what it answers by path, and the paths that it was asked for."""

    port: int
    certificate: Path
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return f"https://localhost:{self.port}{path}"

    def serve(self, path: str, content: bytes) -> None:
        """Answer a path with content."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(content)

        self.answers[path] = answer

    def redirect(self, path: str, target: str) -> None:
        """Redirect a path to a URL."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", target)
            handler.end_headers()

        self.answers[path] = answer

    def trickle(self, path: str, ended: threading.Event) -> None:
        """Answer a path with a byte now and then, until the client gives up."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            try:
                while not ended.wait(0.05):
                    handler.wfile.write(b"#")
            except OSError:
                ended.set()

        self.answers[path] = answer


@contextmanager
def running_https_server(folder: Path) -> Iterator[HttpsServer]:
    """Run a server. Its certificate is in the folder."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [*CERTIFICATE.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server: HttpsServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append(self.path)
            if self.path in server.answers:
                server.answers[self.path](self)
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        server = HttpsServer(listener.server_address[1], certificate)
        thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()
