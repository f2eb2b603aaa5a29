"""The graph of the page: what it has of each kind of job, and how it is drawn in a browser."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobState, StopReason
from headrace.model.pipes import PipeStage
from headrace.pipes.ends import end_of
from headrace.settings import Settings
from headrace.web.app import create_app
from headrace.web.graph_view import node_of
from tests.airflow.browsing import browser, served
from tests.airflow.query_samples import add_query
from tests.airflow.samples import add_stream
from tests.airflow.stream_dags import stream_dag_id
from tests.airflow.web_page import Executed, Rights
from tests.support.pipes import add_pipe


def edges(graph: dict[str, Any]) -> set[tuple[str, str]]:
    return {(edge["source"], edge["target"]) for edge in graph["edges"]}


def test_each_kind_of_job_is_between_what_it_reads_and_writes(page: TestClient, catalog: Catalog) -> None:
    add_stream(catalog)
    add_query(catalog)
    add_pipe(catalog, "away")
    graph = page.get("/api/graph").json()
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert {("data:power.meters", "stream:power.avg_v"), ("stream:power.avg_v", "data:power.avg_v_out")} <= edges(graph)
    assert nodes["stream:power.avg_v"] | {"lag_ms": 0} == {
        "id": "stream:power.avg_v",
        "label": "power.avg_v",
        "kind": "stream",
        "state": "RUNNING",
        "lag_ms": 0,
        "address": {"stream": "power.avg_v"},
        "job_id": "id-avg_v",
        "updated": 1_700_000_000_500,
        "rows_out": 20,
    }
    into, out = (edge for edge in graph["edges"] if "stream:power.avg_v" in (edge["source"], edge["target"]))
    assert (into["state"], out["state"]) == ("RUNNING", "RUNNING")
    assert into["lag_ms"] == nodes["stream:power.avg_v"]["lag_ms"]
    (query,) = (node for node in nodes.values() if node["kind"] == "continuous query")
    assert {"data"} == {
        nodes[other]["kind"] for edge in edges(graph) if query["id"] in edge for other in edge if other != query["id"]
    }
    (pipe,) = (node for node in nodes.values() if node["kind"] == "pipe")
    assert {kind for edge in edges(graph) if pipe["id"] in edge for kind in (nodes[edge[0]]["kind"], nodes[edge[1]]["kind"])} >= {
        "pipe"
    }


def test_jobs_that_may_not_be_read_are_not_in_the_graph(page: TestClient, catalog: Catalog, rights: Rights) -> None:
    add_stream(catalog)
    rights.hidden = {stream_dag_id("power", "avg_v")}
    answer = page.get("/api/graph").json()
    assert (answer["nodes"], answer["edges"]) == ([], [])


@pytest.mark.parametrize(
    ("attributes", "stage", "expected"),
    [
        ({}, PipeStage.SOURCE, ("data", "root.**")),
        ({"source": "iotdb-source", "source.path": "root.a.**"}, PipeStage.SOURCE, ("data", "root.a.**")),
        ({"source": "table-source", "database": "power", "table": "meters"}, PipeStage.SOURCE, ("data", "power.meters")),
        ({"sink": "kafka-sink", "sink.topic": "readings"}, PipeStage.SINK, ("outside", "kafka-sink readings")),
        ({"connector": "do-nothing-sink"}, PipeStage.SINK, ("outside", "do-nothing-sink")),
    ],
)
def test_ends_of_pipes_have_names(attributes: dict[str, str], stage: PipeStage, expected: tuple[str, str]) -> None:
    assert node_of(end_of(attributes, stage))[:2] == expected


def test_the_graph_is_drawn_and_opens_jobs(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    add_stream(catalog, "other", state=JobState.STOPPED, reason=StopReason("DISK_FULL", "no space", "", 0))
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        page.get_by_role("link", name="Graph").click()
        page.get_by_text("2 jobs. Click one to open it, or find it and press Enter.").wait_for()
        assert page.get_by_role("link", name="Graph").get_attribute("aria-current") == "page"
        picture = page.get_by_role("img", name="Graph of jobs: power.meters to power.avg_v")
        assert picture.locator("canvas").count() > 0
        page.get_by_label("Find in the graph").fill("other")
        place = page.evaluate("document.querySelector('.graph')._cyreg.cy.getElementById('stream:power.avg_v').renderedPosition()")
        classes = page.evaluate("document.querySelector('.graph')._cyreg.cy.getElementById('stream:power.avg_v').classes()")
        assert {"stream", "RUNNING", "dimmed"} <= set(classes)
        box = picture.bounding_box()
        page.mouse.click(box["x"] + place["x"], box["y"] + place["y"])
        page.wait_for_url("**/?stream=power.avg_v")
        page.get_by_role("heading", name="power.avg_v").wait_for()
        page.get_by_role("link", name="List").click()
        page.locator("table.jobs").wait_for()
        assert errors == []
    assert stream
