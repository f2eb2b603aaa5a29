"""A server that responds like Airflow's REST API."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

Answer = tuple[int, Any] | Callable[[dict[str, list[str]]], tuple[int, Any]]
"""Status and content, or a function that returns them for a query."""


@dataclass
class Server:
    """A server with fixed responses by path, which records the requests."""

    url: str
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)

    def bodies(self, method: str, path: str) -> list[Any]:
        """Return the bodies of the requests with a method and path."""
        return [body for *request, body in self.requests if request == [method, path]]


@contextmanager
def running_rest_server() -> Iterator[Server]:
    """Run a server without any answers but that to a login."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            fake.requests.append((self.command, path, json.loads(body) if body else None))
            answer = fake.answers.get((self.command, path), (404, {"detail": "unknown"}))
            status, content = answer(parse_qs(query)) if callable(answer) else answer
            payload = b"" if status == HTTPStatus.NO_CONTENT else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = Server(f"http://127.0.0.1:{http.server_port}")
    fake.answers["POST", "/auth/token"] = (201, {"access_token": "t"})
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield fake
    http.shutdown()
    thread.join()
    http.server_close()
