"""The page served to a headless browser, directly or through a proxy."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import uvicorn

from headrace.runtime.processes import find_free_port
from tests.support.waiting import MAX_WAIT_S, wait_until

FORWARDED_HEADERS = ("content-type", "origin", "sec-fetch-site", "x-headrace-action", "accept")


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application in a thread, and provide its URL."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=find_free_port(), log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "the server to start")
        yield f"http://127.0.0.1:{server.config.port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def proxied(target: str) -> Iterator[str]:
    """Run a proxy that sends the target's Host header and no forwarding headers, and provide its URL."""

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() in FORWARDED_HEADERS}
            response = httpx.request(self.command, target + self.path, headers=headers, content=body)
            with suppress(BrokenPipeError):  # the browser has disconnected
                self.respond(response)

        def respond(self, response: httpx.Response) -> None:
            self.send_response(response.status_code)
            for name in ("content-type", "content-security-policy"):
                if name in response.headers:
                    self.send_header(name, response.headers[name])
            self.send_header("Content-Length", str(len(response.content)))
            self.end_headers()
            self.wfile.write(response.content)

        do_GET = do_POST = forward

        def log_message(self, *_: Any) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


@contextmanager
def browser() -> Iterator[Any]:
    """Open a page in a headless browser, whose policy it may not violate; skip the test if there is none."""
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if executable is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            page, messages = chromium.new_page(), list[str]()
            page.on("console", lambda message: messages.append(message.text))
            page.set_default_timeout(MAX_WAIT_S * 1000)
            yield page
            assert not [message for message in messages if "Content Security Policy" in message]
        finally:
            chromium.close()
