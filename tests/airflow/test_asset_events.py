"""Events of assets that an snode posts for what its streams and queries have written."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobCounters, JobProgress
from headrace.runtime.asset_events import DAY_MS, MAX_DAYS, QUIET_S, AssetEvents, complete_days
from headrace.runtime.dag_ids import asset_uri, table_uri
from headrace.settings import Settings, current, load
from tests.airflow.rest_server import Server
from tests.airflow.samples import add_stream, definition, without_spark

ASSETS, EVENTS = "/api/v2/assets", "/api/v2/assets/events"
URI = table_uri("power", "avg_v_out")
DAY = "1970-01-03"
MINUTE = 60_000


@pytest.fixture
def events(server: Server, home: Settings, catalog: Catalog, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AssetEvents:
    monkeypatch.setenv("HEADRACE_AIRFLOW_URL", server.url)
    current.cache_clear()
    have_asset(server, [{"dag_id": "report"}])
    have_events(server)
    server.answers["POST", EVENTS] = (200, {})
    return AssetEvents(without_spark(load(home=home.home_path), catalog, clock), "default")


def have_asset(server: Server, scheduled: list[dict[str, str]]) -> None:
    server.answers["GET", ASSETS] = (200, {"assets": [{"id": 7, "uri": URI, "scheduled_dags": scheduled}], "total_entries": 1})


def have_events(server: Server, *extras: dict[str, Any], timestamp: str = "2026-01-01T00:00:00Z") -> None:
    server.answers["GET", EVENTS] = (200, {"asset_events": [{"extra": extra, "timestamp": timestamp} for extra in extras]})


def reach(catalog: Catalog, watermark: int, rows: int) -> None:
    catalog.jobs.set_progress("id-avg_v", JobProgress(watermark=watermark, counters=JobCounters(rows_out=rows)))


def event(until: str, rows: int, total: int, since: str | None = None) -> dict[str, Any]:
    extra = {"job": "power.avg_v", "job_id": "id-avg_v", "from": since, "until": until, "rows": rows, "rows_out": total}
    return {"asset_id": 7, "extra": extra}


def test_an_event_has_what_was_written_since_the_last_one(events: AssetEvents, server: Server, catalog: Catalog) -> None:
    add_stream(catalog)
    reach(catalog, 2 * DAY_MS + MINUTE, 10)
    events.post()
    first = event("1970-01-03T00:01:00.000+00:00", 10, 10)
    day_before = {"asset_id": 7, "extra": {"job": "power.avg_v", "day": "1970-01-02"}, "partition_key": "1970-01-02"}
    assert server.bodies("POST", EVENTS) == [day_before, first]
    have_events(server, {"day": DAY}, first["extra"])
    events.post()
    assert len(server.bodies("POST", EVENTS)) == 2
    reach(catalog, 2 * DAY_MS + 3 * MINUTE, 14)
    events.post()
    second = event("1970-01-03T00:03:00.000+00:00", 4, 14, "1970-01-03T00:01:00.000+00:00")
    assert server.bodies("POST", EVENTS)[2:] == [second]


def test_an_event_waits_while_airflow_may_start_the_runs_of_the_one_before(
    events: AssetEvents, server: Server, catalog: Catalog
) -> None:
    add_stream(catalog)
    reach(catalog, MINUTE, 3)
    have_events(server, {}, timestamp=datetime.now(UTC).isoformat())
    events.post()
    assert server.bodies("POST", EVENTS) == []
    have_events(server, {}, timestamp=(datetime.now(UTC) - timedelta(seconds=2 * QUIET_S)).isoformat())
    events.post()
    assert server.bodies("POST", EVENTS)[-1] == event("1970-01-01T00:01:00.000+00:00", 3, 3)


def test_an_event_waits_for_none_of_the_future(events: AssetEvents, server: Server, catalog: Catalog) -> None:
    add_stream(catalog)
    reach(catalog, MINUTE, 3)
    have_events(server, {}, timestamp=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    events.post()
    assert server.bodies("POST", EVENTS)[-1] == event("1970-01-01T00:01:00.000+00:00", 3, 3)


def test_a_stream_of_the_same_name_begins_anew(events: AssetEvents, server: Server, catalog: Catalog) -> None:
    add_stream(catalog)
    reach(catalog, MINUTE, 3)
    have_events(server, event("2000-01-01T00:00:00+00:00", 9, 9)["extra"] | {"job_id": "dropped"})
    events.post()
    assert server.bodies("POST", EVENTS)[-1] == event("1970-01-01T00:01:00.000+00:00", 3, 3)


def test_nothing_is_posted_if_no_dag_is_scheduled_on_the_asset(events: AssetEvents, server: Server, catalog: Catalog) -> None:
    add_stream(catalog)
    reach(catalog, MINUTE, 10)
    have_asset(server, [])
    events.post()
    assert server.bodies("POST", EVENTS) == []


def test_a_stream_that_has_closed_no_window_has_no_event(events: AssetEvents, server: Server, catalog: Catalog) -> None:
    add_stream(catalog, progress=JobProgress())
    events.post()
    assert server.bodies("POST", EVENTS) == []


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, DAY_MS, [date(1970, 1, 1)]),
        (DAY_MS - 1, DAY_MS, [date(1970, 1, 1)]),
        (DAY_MS, 2 * DAY_MS - 1, []),
        (0, 3 * DAY_MS, [date(1970, 1, day) for day in (1, 2, 3)]),
    ],
)
def test_days_that_have_ended_in_between_are_complete(since: int | None, until: int, expected: list[date]) -> None:
    assert complete_days(since, until) == expected


def test_days_are_bounded() -> None:
    assert len(complete_days(0, 1000 * DAY_MS)) == MAX_DAYS


def test_uris_of_assets() -> None:
    assert asset_uri(definition()) == URI == "headrace://table/power/avg_v_out"
    assert table_uri("a b", "ü") == "headrace://table/a%20b/%C3%BC"
