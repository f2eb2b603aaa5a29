"""The page in a browser: highlighting, and actions through a proxy that rewrites the Host header, as most do."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobCounters, JobProgress
from headrace.model.positions import Position
from headrace.settings import Settings
from headrace.web.app import create_app
from tests.airflow.browsing import browser, proxied, served
from tests.airflow.conftest import NOW
from tests.airflow.query_samples import DISCARD, EVERY, FIRST, add_query, done, failed
from tests.airflow.samples import LIVE, add_stream
from tests.airflow.stream_dags import stream_dag_id
from tests.airflow.web_page import Executed, Rights, beat
from tests.catalog.samples import stream_sample
from tests.support.pipes import add_pipe


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


def test_a_slow_micro_batch_is_highlighted_and_the_worst_lag_leads_to_it(
    home: Settings, catalog: Catalog, clock: ManualClock
) -> None:
    beat(catalog, add_stream(catalog), in_flight_ms=180_000)
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.goto(url)
        row = page.locator("table.jobs .warn", has_text="slow batch")
        assert row.inner_text() == "▲ slow batch: 3 m 0 s"
        for width in (390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            assert within(page, page.locator("table.jobs .badge")), width
        page.locator(".cards").get_by_role("link", name="power.avg_v").click()
        assert page.locator(".facts .warn").inner_text() == "▲ slow batch: 3 m 0 s"


def test_snodes_have_the_memory_and_cores_that_they_use(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    beat(catalog, add_stream(catalog), memory_bytes=750_000_000, cores=0.25)
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.goto(url)
        snodes = page.locator("#snodes", has_text="snode")
        assert snodes.inner_text() == "✓ snode default 750MB, 0.3 cores"
        page.set_viewport_size({"width": 390, "height": 740})
        assert within(page, snodes)


def within(page: Any, node: Any) -> bool:
    """Return whether an element is in the window, without scrolling."""
    box, window = node.bounding_box(), page.viewport_size
    return bool(box["x"] + box["width"] <= window["width"] and box["y"] + box["height"] <= window["height"])


def test_a_continuous_query_is_listed_beside_a_stream_of_its_name(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    add_stream(catalog, "tens")
    done(catalog, add_query(catalog, "power.tens"), FIRST)
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.goto(url)
        page.locator("table.jobs .kind", has_text="continuous query").wait_for()
        assert sorted(page.locator("table.jobs .kind").all_inner_texts()) == ["continuous query", "stream"]
        assert "1 stream and 1 continuous query" in page.locator(".cards").inner_text()
        for kind, tab in (("continuous query", "Executions"), ("stream", "Backfill")):
            page.locator("tr", has=page.locator(".kind", has_text=kind)).get_by_role("link", name="power.tens").click()
            assert page.locator("h2 small").inner_text() == kind
            assert page.get_by_role("tab", name=tab).count() == 1
            page.get_by_role("link", name="All jobs").click()


def test_the_intervals_of_a_query_are_drawn_by_state(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    query = add_query(catalog, schedule=DISCARD)
    done(catalog, query, *range(FIRST, FIRST + 10 * EVERY, EVERY), NOW - 2 * EVERY)
    failed(catalog, query, NOW - EVERY, "no space left")
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as url, browser() as page:
        page.goto(f"{url}/?cq=tens")
        picture = page.get_by_role("img", name="last 31 intervals")
        label = picture.get_attribute("aria-label")
        assert label == "last 31 intervals: 11 done, 1 due, not started, 1 failed, 18 missed (a later one was due)"
        assert picture.locator("i").count() == 31
        assert picture.locator("i.failed").get_attribute("title").endswith("FAILED: no space left")
        page.get_by_role("tab", name="Executions").click()
        states = page.locator("table.executions .badge").all_inner_texts()
        assert states[:3] == ["PENDING", "FAILED", "DONE"]
        assert "no space left" in page.locator("table.executions .reason").inner_text()
        page.reload()
        assert page.get_by_role("tab", name="Executions").get_attribute("aria-selected") == "true"


def test_a_query_is_resumed_by_its_statement(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    catalog.jobs.set_desired(add_query(catalog, "my query"), DesiredState.PAUSED)
    executed = Executed()
    with served(create_app(Rights(), home, execute=executed, clock=clock)) as url, browser() as page:
        page.goto(f"{url}/?cq=my%20query")
        page.get_by_role("button", name="Resume").click()
        dialog = page.locator("dialog")
        assert dialog.locator("code.command").inner_text() == "headrace sql --dialect iotdb 'RESUME CONTINUOUS QUERY `my query`'"
        dialog.get_by_role("button", name="Resume").click()
        dialog.wait_for(state="hidden")
    assert (executed.statements, executed.dialects) == (["RESUME CONTINUOUS QUERY `my query`"], ["iotdb"])


def test_the_quarantine_of_a_stream_is_dropped_by_its_statement(home: Settings, catalog: Catalog) -> None:
    add_stream(catalog, progress=replace(LIVE, counters=replace(LIVE.counters, rows_in=102, rows_quarantined=2)))
    executed = Executed()
    with served(create_app(Rights(), home, execute=executed)) as url, browser() as page:
        page.goto(f"{url}/?stream=power.avg_v")
        page.get_by_role("button", name="Drop quarantine").click()
        dialog = page.locator("dialog")
        assert dialog.locator("h2").inner_text() == "Drop quarantine of stream power.avg_v?"
        dialog.get_by_role("button", name="Drop quarantine").click()
        dialog.wait_for(state="hidden")
        assert page.get_by_role("button", name="Drop quarantine").count() == 1, "the page still shows the stream"
    assert executed.statements == ["DROP QUARANTINE OF STREAM power.avg_v"]


def test_a_job_that_may_not_be_read_is_explained(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    add_stream(catalog, "secret")
    rights = Rights(hidden={stream_dag_id("power", "secret")})
    with served(create_app(rights, home, execute=Executed(), clock=clock)) as url, browser() as page:
        for address, heading in (("stream=power.secret", "Stream power.secret"), ("cq=tens", "Continuous query tens")):
            page.goto(f"{url}/?{address}")
            page.get_by_role("heading", name=f"{heading} does not exist").wait_for()
            assert page.locator(".empty p").inner_text() == "It was dropped, or you have no right to read its DAG."
        assert page.locator("#notice").is_hidden()


def test_a_pipe_is_shown_by_its_stages_and_can_be_stopped(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    id = add_pipe(
        catalog, progress=JobProgress(Position(1, {}), updated=NOW, counters=JobCounters(rows_out=1_234, bytes_out=2_000))
    )
    catalog.stream_metrics.add([stream_sample(id, NOW - 1_000)], keep_ms=10_000)
    executed = Executed()
    with served(create_app(Rights(), home, execute=executed, clock=clock)) as url, browser() as page:
        page.goto(url)
        row = page.locator("tr", has=page.locator(".kind", has_text="pipe"))
        assert "iotdb-source root.plant.** → iotdb-thrift-sink db.example" in row.inner_text()
        row.get_by_role("link", name="out").click()
        page.locator(".stage").last.wait_for()
        assert page.locator(".stage h3").all_inner_texts() == [
            "Source iotdb-source",
            "Processor do-nothing-processor",
            "Sink iotdb-thrift-sink",
        ]
        assert "sink.password\n******" in page.locator(".stage").last.inner_text()
        assert "Rows out\n1,234" in page.locator(".facts").inner_text()
        page.locator(".charts canvas").last.wait_for()
        assert page.locator("figcaption > b").all_inner_texts() == ["Lag", "Rows per second", "Bytes per second", "Remaining rows"]
        page.get_by_role("button", name="Stop").click()
        dialog = page.locator("dialog")
        assert dialog.locator("h2").inner_text() == "Stop pipe out?"
        dialog.get_by_role("button", name="Stop").click()
        dialog.wait_for(state="hidden")
    assert executed.statements == ["STOP PIPE out"]
