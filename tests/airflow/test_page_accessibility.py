"""Every view of the page is usable by keyboard and by screen readers, in light and dark, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.settings import Settings
from headrace.web.app import create_app
from tests.airflow.accessibility import violations
from tests.airflow.browsing import browser, served
from tests.airflow.full_catalog import fill_catalog
from tests.airflow.web_page import Executed, Rights

VIEWS = {
    "list": ("", "table.jobs"),
    "graph": ("view=graph", ".graph canvas >> nth=0"),
    "missing": ("stream=power.nothing", ".empty"),
    **{
        f"stream {tab}": (f"stream=power.avg_v&tab={tab}", ".panel > :not(.quiet)")
        for tab in ("Overview", "SQL", "Plan", "Events", "Rights", "Results")
    },
    "backfill": ("stream=power.filling&tab=Backfill", ".panel table"),
    "stopped stream": ("stream=power.stopped", ".facts"),
    "query": ("cq=tens", ".picture"),
    "executions": ("cq=tens&tab=Executions", ".executions"),
    "pipe": ("pipe=out", ".stage"),
}
"""Addresses of views, and what is there once a view is loaded."""


@pytest.fixture
def url(home: Settings, catalog: Catalog, clock: ManualClock) -> Iterator[str]:
    fill_catalog(catalog)
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url:
        yield url


def test_no_view_has_violations(url: str) -> None:
    found = []
    with browser() as page:
        for view, (address, loaded) in VIEWS.items():
            page.goto(f"{url}/?{address}")
            page.locator(loaded).first.wait_for()
            found += violations(page, view)
        page.goto(f"{url}/?stream=power.avg_v")
        page.get_by_role("button", name="Pause").click()
        found += violations(page, "dialog")
    assert found == []


def test_the_page_without_jobs_and_that_of_a_server_that_fails_have_no_violations(
    home: Settings, catalog: Catalog, clock: ManualClock
) -> None:
    assert catalog
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.clock.install()
        page.goto(url)
        page.locator(".empty").wait_for()
        assert violations(page, "empty") == []
        page.route("**/api/jobs", lambda route: route.fulfill(status=503, json={"message": "it is away", "hint": "wait"}))
        page.clock.fast_forward(10_000)
        page.locator("#notice").wait_for()
        page.locator("body.stale").wait_for()
        assert violations(page, "failed") == []


def test_an_action_is_reached_and_cancelled_by_keyboard(url: str) -> None:
    with browser() as page:
        page.goto(url)
        page.locator("table.jobs").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("avg_v")
        page.locator("table.jobs").get_by_role("link", name="power.avg_v").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Pause").wait_for()
        page.get_by_role("tab", name="Overview").focus()
        page.keyboard.press("ArrowRight")
        assert focused(page) == "SQL"
        page.get_by_role("button", name="Pause").focus()
        page.keyboard.press("Enter")
        assert focused(page) == "Cancel"
        with page.expect_response("**/api/jobs/id-avg_v"):  # the page is drawn again behind the dialog
            pass
        page.keyboard.press("Escape")
        page.wait_for_function("document.activeElement.textContent === 'Pause'")


def test_a_job_is_opened_from_the_graph_by_keyboard(url: str) -> None:
    with browser() as page:
        page.goto(f"{url}/?view=graph")
        page.get_by_text("Click one to open it").wait_for()
        page.get_by_label("Find in the graph").fill("filling")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="power.filling").wait_for()


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent"))
