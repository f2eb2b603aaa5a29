"""A catalog that hangs, since its host is gone: its users wait for a limited time, in a limited number of threads."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from itertools import islice

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI

from headrace.errors import TransientError
from headrace.settings import Settings, current, load
from headrace.web import app
from tests.airflow.web_page import Rights
from tests.support.waiting import MAX_WAIT_S

pytestmark = pytest.mark.airflow

REQUESTS = 60


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Provide a server that accepts connections and never answers; closing it resets them."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * REQUESTS) as opened:
        yield opened


@pytest.fixture
def hanging(home: Settings, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Provide the settings of a home whose catalog hangs."""
    monkeypatch.setenv("HEADRACE_CATALOG_URL", f"postgresql://u@127.0.0.1:{listener.getsockname()[1]}/catalog")
    current.cache_clear()
    return load(home=home.home_path)


def test_the_page_leaves_threads_to_airflow(hanging: Settings, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_WAIT_S", 0.5)
    host = FastAPI()
    host.get("/other")(lambda: "fine")
    host.mount("/headrace", app.create_app(Rights(), hanging))

    async def load_page() -> tuple[list[int], int, int]:
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=MAX_WAIT_S) as client:
            requests = [asyncio.create_task(client.get("/headrace/api/jobs")) for _ in range(REQUESTS)]
            for answer in islice(asyncio.as_completed(requests), REQUESTS - app.MAX_THREADS):
                await answer
            busy = to_thread.current_default_thread_limiter().statistics().borrowed_tokens
            other = (await client.get("/other")).status_code
            listener.close()
            return [answer.status_code for answer in await asyncio.gather(*requests)], busy, other

    answers, busy, other = asyncio.run(load_page())
    assert answers == [503] * REQUESTS
    assert (busy <= app.MAX_THREADS, other) == (True, 200)


def test_triggers_wait_for_a_limited_time_in_threads_of_their_own(hanging: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    import headrace_supervision

    assert hanging.catalog_url
    headrace_supervision.snapshot_cache.cache_clear()
    monkeypatch.setattr(headrace_supervision, "MAX_WAIT_S", 0.2)

    async def open_caches() -> list[object]:
        opening = (headrace_supervision.in_thread(headrace_supervision.snapshot_cache) for _ in range(REQUESTS))
        return await asyncio.gather(*opening, return_exceptions=True)

    results = asyncio.run(open_caches())
    assert all(isinstance(result, TransientError) for result in results)
    assert sum(thread.name.startswith("headrace") for thread in threading.enumerate()) <= 4
