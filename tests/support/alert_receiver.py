"""A receiver of alerts as Alertmanager's API v2 defines it: `POST /api/v2/alerts` with an array of alerts."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


def problem_of(alert: Any) -> str:
    """Return what the API does not accept about an alert, empty if it accepts it."""
    if not isinstance(alert, dict) or not set(alert) <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}:
        return "alerts have labels, annotations, startsAt, endsAt and generatorURL"
    for name in ("labels", "annotations"):
        texts = alert.get(name, {})
        if not isinstance(texts, dict) or not all(isinstance(text, str) for pair in texts.items() for text in pair):
            return f"{name} are texts by name"
    return "" if any(alert.get("labels", {}).values()) else "at least one label is required"


@dataclass
class AlertReceiver:
    """The alerts that were received."""

    url: str = ""
    alerts: list[dict[str, Any]] = field(default_factory=list)

    def receive(self, path: str, content_type: str, body: bytes) -> tuple[int, str]:
        """Take a request; return the status and the answer."""
        if path != "/api/v2/alerts":
            return 404, "path not found"
        if content_type != "application/json":
            return 415, f"unsupported media type {content_type}"
        alerts = json.loads(body)
        problems = ["not an array"] if not isinstance(alerts, list) else [text for alert in alerts if (text := problem_of(alert))]
        if problems:
            return 400, problems[0]
        self.alerts += alerts
        return 200, ""


@contextmanager
def receiving_alerts() -> Iterator[AlertReceiver]:
    """Provide a receiver at a free port of this machine."""
    receiver = AlertReceiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = receiver.receive(self.path, self.headers["Content-Type"], body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        yield receiver
        server.shutdown()
