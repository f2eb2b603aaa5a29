"""The page in a browser: highlighting, and actions through a proxy that rewrites the Host header, as most do."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import uvicorn

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.runtime.processes import find_free_port
from headrace.settings import Settings
from headrace.web.app import create_app
from tests.airflow.samples import add_stream
from tests.airflow.test_web import Executed, Rights, beat
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
    """Open a page in a headless browser; skip the test if there is none."""
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if executable is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            page = chromium.new_page()
            page.set_default_timeout(MAX_WAIT_S * 1000)
            yield page
        finally:
            chromium.close()


def test_an_action_works_through_a_proxy_and_its_command_can_be_copied(home: Settings, catalog: Catalog) -> None:
    add_stream(catalog, "it's")
    executed = Executed()
    with served(create_app(Rights(), home, execute=executed)) as inner, proxied(inner) as outer, browser() as page:
        page.goto(f"{outer}/?stream=power.it's")
        page.get_by_role("button", name="Pause").click()
        dialog = page.locator("dialog")
        statement, command = dialog.locator("pre").inner_text(), dialog.locator("code.command").inner_text()
        dialog.get_by_role("button", name="Pause").click()
        dialog.wait_for(state="hidden")
    assert executed.statements == [statement]
    echoed = command.replace("headrace sql", "printf %s", 1)
    assert subprocess.run(["sh", "-c", echoed], capture_output=True, text=True, check=True).stdout == statement


def test_a_slow_micro_batch_is_highlighted_next_to_the_lag(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    beat(catalog, add_stream(catalog), in_flight_ms=180_000)
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.goto(url)
        row = page.locator("table.jobs .warn", has_text="slow batch")
        assert row.inner_text() == "▲ slow batch: 3 m 0 s"
        page.get_by_role("link", name="power.avg_v").click()
        assert page.locator(".facts .warn").inner_text() == "▲ slow batch: 3 m 0 s"
