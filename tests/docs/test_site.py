"""The documentation builds as a site that needs no network, with a search that finds pages."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, markdown_pages
from tests.support.waiting import MAX_WAIT_S

LOADED = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="https?://')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; links and headings that do not exist fail."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_page_is_in_the_site_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs") for page in markdown_pages() if page.is_relative_to(ROOT / "docs")]
    built = [site / page.parent / ("index.html" if page.name == "README.md" else f"{page.stem}.html") for page in pages]
    assert [page for page in built if not page.exists()] == []
    assert [page for page in site.rglob("*.html") if LOADED.search(page.read_text())] == []
    assert (site / "project" / "CHANGELOG.html").exists()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_the_search_finds_a_page(address: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(MAX_WAIT_S * 1000)
        # What is typed before the search has started is lost, so the address has it.
        page.goto(f"{address}/index.html?q=quarantine")
        page.locator(".md-search-result__link", has_text="Which rows will my stream ignore").first.click()
        page.wait_for_url("**/guides/ignored-rows.html*")
        assert page.get_by_role("heading", level=1).inner_text().startswith("Which rows will my stream ignore")
        browser.close()
