"""The lineage of columns on the page: what the server tells whom, and how a browser shows it."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi.testclient import TestClient

import headrace
from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.settings import Settings
from headrace.web.app import create_app
from tests.airflow.browsing import browser, served
from tests.airflow.web_page import Executed, Rights

STATEMENTS = (
    "create database power",
    "create stable power.meters (ts timestamp, v double, amps double) tags (place varchar(20))",
    "create stream power.first into power.minutes (t, mean) as "
    "select _wstart, avg(v) from power.meters where amps > 0 partition by place interval(1m)",
    "create stream power.second into power.hours (t, top) as select _wstart, max(mean) from power.minutes interval(1h)",
)
TREE = (
    "create database root.plant",
    "create timeseries root.plant.line1.speed with datatype=DOUBLE",
    "create cq means begin select avg(speed) into root.plant.means(speed) from root.plant.line1 group by (1m) end",
)


@pytest.fixture
def jobs(home: Settings, clock: ManualClock, catalog: Catalog) -> dict[str, str]:
    """Create two streams in a row and a continuous query; provide the ids of all jobs by name."""
    with (
        headrace.connect(settings=home, clock=clock) as tables,
        headrace.connect(settings=home, clock=clock, dialect="iotdb") as tree,
    ):
        for sql in STATEMENTS:
            tables.execute(sql)
        for sql in TREE:
            tree.execute(sql)
    return {record.definition.name: record.definition.id for record in catalog.jobs.all()}


def sources(answer: dict[str, Any], column: str) -> list[tuple[str, str, str]]:
    (inputs,) = (one["inputs"] for one in answer["columns"] if one["column"] == column)
    return [(one["table"], one["column"], one["transformation"]) for one in inputs]


def test_the_page_has_the_lineage_of_each_job(jobs: dict[str, str], page: TestClient) -> None:
    answer = page.get(f"/api/jobs/{jobs['first']}/lineage").json()
    assert sources(answer, "mean") == [("power.meters", "v", "AGGREGATION")]
    assert {(one["column"], one["transformation"], one["direct"]) for one in answer["all"]} == {
        ("amps", "FILTER", False),
        ("place", "GROUP_BY", False),
        ("ts", "WINDOW", False),
    }
    means = page.get(f"/api/jobs/{jobs['means']}/lineage").json()
    assert sources(means, "speed") == [("root.plant.line1", "speed", "AGGREGATION")]


def test_a_user_sees_no_source_without_a_right(jobs: dict[str, str], home: Settings, clock: ManualClock, page: TestClient) -> None:
    with headrace.connect(settings=home, clock=clock) as root:
        for sql in ("create user vera pass 'secret12'", "grant write on power.* to vera", "grant read on power.minutes to vera"):
            root.execute(sql)
        assert sources(page.get(f"/api/jobs/{jobs['first']}/lineage").json(), "mean") == [("power.meters", "v", "AGGREGATION")]
        root.execute("revoke write on power.* from vera")
        root.execute("grant write on power.hours to vera")
    assert page.get(f"/api/jobs/{jobs['first']}/lineage").status_code == 404
    assert sources(page.get(f"/api/jobs/{jobs['second']}/lineage").json(), "top") == [("power.minutes", "mean", "AGGREGATION")]


def test_a_column_is_traced_through_the_graph(jobs: dict[str, str], home: Settings, clock: ManualClock) -> None:
    assert len(jobs) == 3
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{url}/?view=graph")
        page.get_by_label("Columns of").select_option("power.hours")
        page.get_by_role("group", name="Columns").get_by_role("button", name="top").click()
        listed = page.get_by_role("list", name="Sources of the column")
        listed.get_by_text("power.meters.v aggregated").wait_for()
        assert "power.minutes.mean aggregated" in listed.inner_text()
        nodes = page.evaluate(
            "Object.fromEntries(document.querySelector('.graph')._cyreg.cy.nodes().map((node) => "
            "[node.id(), [node.hasClass('dimmed'), node.data('text')]]))"
        )
        assert nodes["data:power.meters"] == [False, "power.meters\nv"]
        assert nodes["data:power.minutes"] == [False, "power.minutes\nmean"]
        assert nodes["stream:power.second"][0] is False
        assert nodes["data:root.plant.line1"][0] is True
        page.get_by_label("Columns of").select_option("root.plant.means")
        page.get_by_role("group", name="Columns").get_by_role("button", name="speed").click()
        listed.get_by_text("root.plant.line1.speed aggregated").wait_for()
        assert page.get_by_role("button", name="speed").get_attribute("aria-pressed") == "true"
        assert Axe().run(page).violations_count == 0
        assert errors == []
