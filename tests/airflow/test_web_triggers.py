"""Triggers on the page."""

from __future__ import annotations

from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.runtime.dag_ids import snode_dag_id
from headrace.settings import Settings
from headrace.web.app import create_app
from tests.airflow.browsing import browser, served
from tests.airflow.samples import add_stream
from tests.airflow.trigger_samples import add_trigger, count_calls
from tests.airflow.web_page import Executed, Rights


def listed(home: Settings, rights: Rights, clock: ManualClock) -> list[dict[str, object]]:
    """Return the triggers of a list that is read for the first time."""
    answer = TestClient(create_app(rights, home, execute=Executed(), clock=clock)).get("/api/jobs").json()
    triggers: list[dict[str, object]] = answer["triggers"]
    return triggers


def test_triggers_are_listed_for_those_who_may_read_the_dag_of_an_snode(
    home: Settings, catalog: Catalog, clock: ManualClock
) -> None:
    add_trigger(catalog, "hot")
    count_calls(catalog, "hot", failures=1)
    add_trigger(catalog, "half created", is_created=False)
    [trigger] = listed(home, Rights(), clock)
    assert (trigger["name"], trigger["state"], trigger["calls"], trigger["failures"]) == ("hot", "ACTIVE", 5, 1)
    assert trigger["last_error"] == "fire returned False"
    assert listed(home, Rights(hidden={snode_dag_id(home.snode)}), clock) == []


def test_triggers_are_shown_below_the_jobs(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    add_stream(catalog, "avg_minute")
    add_trigger(catalog, "hot")
    count_calls(catalog, "hot", failures=1)
    add_trigger(catalog, "webhook", reason="it failed 3 times in a row, the last time with: timed out")
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.goto(url)
        section = page.locator("section.triggers")
        section.locator(".badge", has_text="INACTIVE").wait_for()
        assert "before insert" in section.inner_text()
        assert "fire returned False" in section.inner_text()
        assert "it failed 3 times in a row" in section.inner_text()
        assert section.locator("tbody tr").first.locator("td.n").all_inner_texts() == ["5", "1", "12 ms", "2.4 ms"]
