"""The measurements of streams: what the page's server says of them, and how a browser draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.settings import Settings
from headrace.web.app import create_app
from headrace.web.metric_view import HOUR_MS, MAX_POINTS, ChartRange, metric_charts
from tests.airflow.browsing import browser, served
from tests.airflow.conftest import NOW
from tests.airflow.full_catalog import DAY_MS, add_samples
from tests.airflow.samples import add_stream
from tests.airflow.stream_dags import stream_dag_id
from tests.airflow.web_page import Executed, Rights
from tests.catalog.samples import stream_sample

WIDTH_MS = HOUR_MS // MAX_POINTS


def measured(series: dict[str, list[Any]], name: str) -> list[Any]:
    return [value for value in series[name] if value is not None]


def test_a_point_has_means_maxima_and_the_time_of_a_micro_batch(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    start = NOW - HOUR_MS + 10 * WIDTH_MS
    catalog.stream_metrics.add(
        [
            stream_sample(stream, NOW, batches=0),
            replace(stream_sample(stream, start + 1, batches=3), lag_ms=700, rows_in_s=40.0, compute_ms=6.0),
            stream_sample(stream, start, batches=1),
            replace(stream_sample(stream, NOW - HOUR_MS - 1), lag_ms=9_999),
        ],
        keep_ms=DAY_MS,
    )
    answer = page.get(f"/api/jobs/{stream}/metrics").json()
    series = answer["series"]
    assert measured(series, "lag_ms") == [700, 5]
    assert measured(series, "rows_in_s") == [30.0, 20.0]
    assert measured(series, "compute_ms") == [5.0], "(3 · 6 + 1 · 2) / 4; there is none without micro-batches"
    assert series["lag_ms"][10] == 700
    assert answer["times"][10] == start
    assert answer["times"][-1] == NOW
    assert {len(values) for values in series.values()} == {len(answer["times"])}


@pytest.mark.parametrize(
    ("keep_ms", "ranges"),
    [(HOUR_MS, ["hour"]), (DAY_MS, ["hour", "day"]), (7 * DAY_MS, ["hour", "day", "week"])],
)
def test_ranges_reach_back_as_far_as_samples_are_kept(catalog: Catalog, keep_ms: int, ranges: list[str]) -> None:
    assert metric_charts(catalog, [add_stream(catalog)], ChartRange.HOUR, NOW, keep_ms, 10_000)["ranges"] == ranges


def test_measurements_of_a_stream_that_may_not_be_read_are_not_shown(page: TestClient, catalog: Catalog, rights: Rights) -> None:
    stream = add_stream(catalog)
    assert page.get(f"/api/jobs/{stream}/metrics?over=year").status_code == 422
    rights.hidden = {stream_dag_id("power", "avg_v")}
    assert page.get(f"/api/jobs/{stream}/metrics").status_code == 404


def test_the_measurements_of_a_stream_are_drawn_over_a_range(home: Settings, catalog: Catalog, clock: ManualClock) -> None:
    add_samples(catalog, add_stream(catalog))
    with served(create_app(Rights(), home, execute=Executed(), clock=clock)) as address, browser() as page:
        page.goto(f"{address}/?stream=power.avg_v")
        charts = page.locator(".charts figure")
        charts.locator("canvas").last.wait_for()
        titles = ["Lag", "Rows per second", "Time of a micro-batch", "Rows waiting", "Windows in state", "State"]
        assert charts.locator("figcaption > b").all_inner_texts() == titles
        assert description(charts, 0) == "Lag of the last hour: commits not handled now 200 ms, maximum 286 ms"
        assert "read now 1 ms, maximum 1 ms; compute now 2 ms" in description(charts, 2)
        assert drawn_colors(page, 2) == 5, "each part of a micro-batch has a color of its own"
        assert drawn_points(page, [1, 2, 3, 4], 10) == ([1, 2, 3, 4], [])
        assert drawn_points(page, [1, None, 3, None, None, 5], 20) == ([1, "joined", 3, None, None, 5], [5]), "a gap"
        assert drawn_points(page, [None, None, 3, None, None], 20) == ([None, None, 3, None, None], [2]), "one sample"
        day = page.get_by_role("group", name="Range of the charts").get_by_role("button", name="1 day")
        day.click()
        page.get_by_text("Samples are kept for 7 d, thinned out with age.").wait_for()
        assert description(charts, 0) == "Lag of the last day: commits not handled now 200 ms, maximum 399 ms"
        assert day.get_attribute("aria-pressed") == "true"


def description(charts: Any, number: int) -> str:
    return str(charts.nth(number).locator("[role=img]").get_attribute("aria-label"))


def drawn_points(page: Any, values: list[int | None], max_gap_ms: int) -> tuple[list[Any], list[int]]:
    """Return what is drawn of samples that are 10 ms apart, and which of them are points of their own."""
    drawn, points = page.evaluate(
        """async ([values, maxGapMs]) => {
            const { withGaps, lonePoints } = await import("./charts.js");
            const drawn = withGaps(values, values.map((_, index) => index * 10), values.map((value) => value !== null), maxGapMs);
            return [drawn.map((value) => value === undefined ? "joined" : value), lonePoints(drawn)];
        }""",
        [values, max_gap_ms],
    )
    return drawn, points


def drawn_colors(page: Any, number: int) -> int:
    """Return how many of the colors of a chart's legend its drawing has."""
    return int(
        page.evaluate(
            """(number) => {
                const figure = document.querySelectorAll(".charts figure")[number];
                const canvas = figure.querySelector("canvas");
                const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                const drawn = new Set();
                for (let i = 0; i < pixels.length; i += 4) drawn.add(`rgb(${pixels[i]}, ${pixels[i + 1]}, ${pixels[i + 2]})`);
                return [...figure.querySelectorAll("i")].filter((mark) => drawn.has(getComputedStyle(mark).backgroundColor)).length;
            }""",
            number,
        )
    )
