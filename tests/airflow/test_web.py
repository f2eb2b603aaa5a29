"""The page's server: its data, access control and actions."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.cli.system import describe_jobs
from headrace.errors import OperationalError
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobProgress, JobState, StopReason
from headrace.model.ledger import Chunk
from headrace.model.positions import Position
from headrace.runtime.supervision import read_snapshot, stale_after_ms
from headrace.settings import Settings
from headrace.web.app import MAX_BODY_BYTES, create_app
from tests.airflow.conftest import NOW
from tests.airflow.samples import LIVE, SOURCE, add_stream
from tests.airflow.stream_dags import stream_dag_id
from tests.airflow.web_page import ACTION, Executed, Rights, beat, only_job
from tests.catalog.samples import stream_sample

FAILED = StopReason("TYPE", "column v is gone", "fix the cause, then RESUME STREAM", NOW - 5_000)


def test_the_page_and_its_parts_are_served(page: TestClient) -> None:
    index = page.get("/")
    assert "<title>Headrace</title>" in index.text
    for path in (
        "app.js",
        "dom.js",
        "api.js",
        "parts.js",
        "list.js",
        "detail.js",
        "intervals.js",
        "charts.js",
        "backfill.js",
        "preview.js",
        "versions.js",
        "style.css",
        "icon.svg",
        "icon-dark.svg",
    ):
        assert page.get(f"/{path}").status_code == 200, path


def test_the_page_loads_nothing_from_other_sites_or_by_absolute_paths(page: TestClient) -> None:
    text = "".join(
        page.get(path).text
        for path in ("/", "/app.js", "/api.js", "/list.js", "/detail.js", "/parts.js", "/intervals.js", "/style.css")
    )
    for forbidden in ('src="/', 'href="/', 'fetch("/', "fetch(`/", "https://", "innerHTML"):
        assert forbidden not in text, forbidden


def test_responses_restrict_frames_and_scripts_to_the_same_origin(page: TestClient) -> None:
    policy = page.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy


def test_users_who_are_not_logged_in_get_no_data(page: TestClient, catalog: Catalog, rights: Rights) -> None:
    stream = add_stream(catalog)
    rights.logged_in = False
    for path in ("/api/jobs", f"/api/jobs/{stream}", f"/api/jobs/{stream}/plan"):
        assert page.get(path).status_code == 401
    assert page.post(f"/api/jobs/{stream}/pause", json={"sql": "x"}, headers=ACTION).status_code == 401


def test_a_stream_whose_dag_may_not_be_seen_does_not_exist(page: TestClient, catalog: Catalog, rights: Rights) -> None:
    stream = add_stream(catalog, "secret", JobState.STOPPED, FAILED)
    rights.hidden = {stream_dag_id("power", "secret")}
    answer = page.get("/api/jobs").json()
    assert answer["jobs"] == []
    assert answer["health"]["states"]["STOPPED"] == 0
    assert page.get(f"/api/jobs/{stream}").status_code == 404


def test_the_list_has_state_reason_lag_and_counters(page: TestClient, catalog: Catalog) -> None:
    add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    stream = only_job(page)
    assert (stream["state"], stream["lag_ms"], stream["source"]) == ("STOPPED", 40, "power.meters")
    assert stream["reason"]["message"] == FAILED.message
    counters = stream["counters"]
    parts = ("rows_used", "rows_updated", "rows_filtered", "rows_expired", "rows_pending")
    assert counters["rows_in"] == sum(counters[part] for part in parts) == 100


def test_a_running_micro_batch_shows_its_age_and_the_lag_from_now(page: TestClient, catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog, progress=JobProgress(Position(1, {})))
    beat(catalog, stream, lag_ms=900, in_flight_ms=700)
    clock.advance(250)
    shown = only_job(page)
    assert (shown["batch_ms"], shown["slow_batch"], shown["lag_ms"]) == (700, None, 1_150)
    assert page.get("/api/jobs").json()["health"]["worst_lag"] == {
        "ms": 1_150,
        "name": "power.avg_v",
        "address": {"stream": "power.avg_v"},
    }


def test_a_slow_micro_batch_is_shown_on_the_page(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    beat(catalog, stream, in_flight_ms=180_000)
    shown = only_job(page)
    assert shown["batch_ms"] == 180_000
    assert shown["slow_batch"].startswith("the micro-batch has been running for 3 minutes")


def test_the_status_command_shows_a_slow_micro_batch(home: Settings, catalog: Catalog) -> None:
    beat(catalog, add_stream(catalog), in_flight_ms=180_000)
    rows = describe_jobs(read_snapshot(catalog, catalog.now()), {}, stale_after_ms(home))
    assert [row[-1] for row in rows] == ["the micro-batch has been running for 3 minutes"]


def test_a_stale_heartbeat_is_no_running_micro_batch(page: TestClient, catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    beat(catalog, stream, lag_ms=900, in_flight_ms=180_000)
    clock.advance(60_000)
    shown = only_job(page)
    assert (shown["batch_ms"], shown["slow_batch"], shown["lag_ms"]) == (None, None, 60_040)


def test_a_stream_that_is_not_live_has_no_lag(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog, progress=JobProgress())
    beat(catalog, stream, in_flight_ms=5)
    assert only_job(page)["lag_ms"] is None


def test_the_health_numbers_count_every_stream_once(page: TestClient, catalog: Catalog) -> None:
    add_stream(catalog, "one")
    add_stream(catalog, "two", JobState.STOPPED, FAILED, JobProgress(Position(1, {}), pending_since=NOW - 900))
    health = page.get("/api/jobs").json()["health"]
    assert sum(health["states"].values()) == 2
    assert health["worst_lag"]["name"] == "power.two"
    assert health["rows_expired"] == 3


def test_rates_are_those_of_the_last_samples(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    catalog.stream_metrics.add([replace(stream_sample(stream, NOW - 20_000), rows_in_s=25.0)], keep_ms=60_000)
    catalog.stream_metrics.add([stream_sample(stream, NOW - 10_000)], keep_ms=60_000)
    shown = only_job(page)
    assert shown["rate"] == {"time": NOW - 10_000, "rows_in": 20.0, "rows_out": 2.0, "bytes_out": 0.0}
    assert shown["history"] == [25.0, 20.0]
    assert page.get("/api/jobs").json()["health"]["rows_out_s"] == 2.0


def test_a_stream_without_recent_samples_has_no_rate(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    catalog.stream_metrics.add([stream_sample(stream, NOW - 60_000)], keep_ms=86_400_000)
    shown = only_job(page)
    assert shown["rate"] is None
    assert shown["history"] == [20.0]


def test_a_filling_stream_shows_progress_and_remaining_time(page: TestClient, catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog, state=JobState.FILLING, progress=JobProgress(boundary={SOURCE: 1}))
    catalog.ledger.plan(stream, "history", [Chunk(stream, "history", n, n * 60_000, (n + 1) * 60_000, 500) for n in range(4)])
    catalog.ledger.claim(stream, "history", 0)
    clock.advance(3_000)
    catalog.ledger.finish(stream, "history", 0, 500)
    backfill = only_job(page)["backfill"]
    assert (backfill["fraction"], backfill["eta_ms"], backfill["chunks"]) == (0.25, 9_000, 4)
    detail = page.get(f"/api/jobs/{stream}").json()
    assert [chunk["state"] for chunk in detail["chunks"]] == ["DONE", "PENDING", "PENDING", "PENDING"]
    assert detail["chunks"][1]["start"] == 60_000


def test_the_detail_has_the_statement_the_offsets_and_the_events(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    catalog.events.record("job", stream, "RESUMED", "by a person")
    detail = page.get(f"/api/jobs/{stream}").json()
    assert detail["sql"].startswith("CREATE STREAM power.avg_v")
    assert (detail["offsets"], detail["boundaries"]) == ({SOURCE: 7}, {SOURCE: 3})
    assert detail["watermark"] == 1_700_000_000_000
    assert [event["kind"] for event in detail["events"]] == ["RESUMED"]


def test_the_plan_describes_how_the_query_is_computed(page: TestClient, catalog: Catalog) -> None:
    plan = page.get(f"/api/jobs/{add_stream(catalog)}/plan").json()["plan"]
    assert "INTERVAL of 1m" in plan
    assert "power.meters" in plan


def test_a_plan_that_fails_is_replaced_by_the_error(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog, options="MAX_WISHES 3")
    assert "[SYNTAX]" in page.get(f"/api/jobs/{stream}/plan").json()["plan"]


def test_of_many_chunks_those_that_are_not_done_are_listed_first(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog, state=JobState.FILLING, progress=JobProgress(boundary={SOURCE: 1}))
    catalog.ledger.plan(stream, "history", [Chunk(stream, "history", n, n, n + 1, 1) for n in range(300)])
    for number in range(250):
        catalog.ledger.claim(stream, "history", number)
        catalog.ledger.finish(stream, "history", number)
    detail = page.get(f"/api/jobs/{stream}").json()
    assert detail["total_chunks"] == 300
    assert {chunk["number"] for chunk in detail["chunks"]} >= set(range(250, 300))


@pytest.mark.parametrize(
    ("state", "desired", "actions"),
    [
        (JobState.RUNNING, DesiredState.RUNNING, ["pause", "reset", "drop"]),
        (JobState.PAUSED, DesiredState.PAUSED, ["resume", "reset", "drop"]),
        (JobState.STOPPED, DesiredState.RUNNING, ["resume", "reset", "drop"]),
    ],
)
def test_the_actions_are_those_that_the_state_allows(
    page: TestClient, catalog: Catalog, state: JobState, desired: DesiredState, actions: list[str]
) -> None:
    stream = add_stream(catalog, state=state, reason=FAILED if state is JobState.STOPPED else None)
    catalog.jobs.set_desired(stream, desired)
    assert [action["action"] for action in page.get(f"/api/jobs/{stream}").json()["actions"]] == actions


@pytest.mark.parametrize(
    ("action", "statement"),
    [("replay", "REPLAY QUARANTINE OF STREAM power.avg_v"), ("drop-quarantine", "DROP QUARANTINE OF STREAM power.avg_v")],
)
def test_rows_in_quarantine_can_be_replayed_and_dropped(
    page: TestClient, catalog: Catalog, executed: Executed, action: str, statement: str
) -> None:
    quarantined = replace(LIVE, counters=replace(LIVE.counters, rows_in=102, rows_quarantined=2))
    stream = add_stream(catalog, progress=quarantined)
    actions = {action["action"]: action["sql"] for action in page.get(f"/api/jobs/{stream}").json()["actions"]}
    assert actions[action] == statement
    answer = page.post(f"/api/jobs/{stream}/{action}", json={"sql": statement}, headers=ACTION)
    assert (answer.status_code, executed.statements) == (200, [statement])


def test_an_action_runs_the_statement_that_was_shown(page: TestClient, catalog: Catalog, executed: Executed) -> None:
    stream = add_stream(catalog, "Meine Stube")
    shown = page.get(f"/api/jobs/{stream}").json()["actions"][0]
    answer = page.post(f"/api/jobs/{stream}/{shown['action']}", json={"sql": shown["sql"]}, headers=ACTION)
    assert answer.status_code == 200
    assert executed.statements == [shown["sql"]] == ["PAUSE STREAM power.`Meine Stube`"]
    assert executed.users == ["vera"]
    assert "vera" in catalog.events.all("job", stream)[0].message


def test_an_action_is_rejected_if_the_stream_has_changed(page: TestClient, catalog: Catalog, executed: Executed) -> None:
    stream = add_stream(catalog)
    catalog.jobs.set_desired(stream, DesiredState.PAUSED)
    answer = page.post(f"/api/jobs/{stream}/pause", json={"sql": "PAUSE STREAM power.avg_v"}, headers=ACTION)
    assert answer.status_code == 409
    assert executed.statements == []


def test_an_action_needs_the_right_to_edit_the_dag(page: TestClient, catalog: Catalog, rights: Rights, executed: Executed) -> None:
    stream = add_stream(catalog)
    rights.fixed = {stream_dag_id("power", "avg_v")}
    assert page.get(f"/api/jobs/{stream}").json()["actions"] == []
    answer = page.post(f"/api/jobs/{stream}/pause", json={"sql": "PAUSE STREAM power.avg_v"}, headers=ACTION)
    assert answer.status_code == 403
    assert executed.statements == []


def test_dropping_needs_the_right_to_delete_the_dag(page: TestClient, catalog: Catalog, rights: Rights, executed: Executed) -> None:
    stream = add_stream(catalog)
    rights.kept = {stream_dag_id("power", "avg_v")}
    assert [action["action"] for action in page.get(f"/api/jobs/{stream}").json()["actions"]] == ["pause", "reset"]
    drop = {"json": {"sql": "DROP STREAM power.avg_v"}, "headers": ACTION}
    answer = page.post(f"/api/jobs/{stream}/drop", **drop)
    assert (answer.status_code, executed.statements) == (403, [])
    rights.kept = set()
    assert [action["action"] for action in page.get(f"/api/jobs/{stream}").json()["actions"]] == ["pause", "reset", "drop"]
    assert page.post(f"/api/jobs/{stream}/drop", **drop).status_code == 200


def test_the_user_who_drops_a_stream_is_recorded(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    page.post(f"/api/jobs/{stream}/drop", json={"sql": "DROP STREAM power.avg_v"}, headers=ACTION)
    catalog.jobs.drop(stream)
    (event,) = catalog.events.all("job", stream)
    assert (event.kind, event.message) == ("ASKED", "DROP STREAM power.avg_v by vera")


@pytest.mark.parametrize("name", ["it's", "$(reboot)", "a`b", 'say "so"', "back\\slash", "plain"])
def test_the_shell_command_runs_the_exact_statement(page: TestClient, catalog: Catalog, name: str) -> None:
    stream = add_stream(catalog, name)
    for action in page.get(f"/api/jobs/{stream}").json()["actions"]:
        assert action["command"].startswith("headrace sql ")
        echoed = action["command"].replace("headrace sql", "printf %s", 1)
        assert subprocess.run(["sh", "-c", echoed], capture_output=True, text=True, check=True).stdout == action["sql"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://public.example"},
        {"X-Forwarded-Host": "public.example", "Origin": "https://public.example"},
        {"X-Forwarded-Host": "public.example, inner.example", "Origin": "https://public.example"},
        {"Origin": "https://airflow.example"},
        {"Origin": "http://testserver"},
        {},
    ],
)
def test_an_action_is_accepted_behind_a_proxy_that_rewrites_the_host(
    home: Settings, catalog: Catalog, rights: Rights, executed: Executed, headers: dict[str, str]
) -> None:
    stream = add_stream(catalog)
    rights.url = "https://airflow.example/airflow"
    with TestClient(create_app(rights, home, execute=executed)) as page:
        answer = page.post(f"/api/jobs/{stream}/pause", json={"sql": "PAUSE STREAM power.avg_v"}, headers=ACTION | headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**ACTION, "Sec-Fetch-Site": "cross-site"},
        {**ACTION, "Sec-Fetch-Site": "same-site"},
        {**ACTION, "Origin": "https://evil.example"},
        {**ACTION, "Origin": "null"},
        {**ACTION, "Origin": "https://evil.example", "X-Forwarded-Host": "public.example"},
        {**ACTION, "Origin": "https://evil.example", "Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_an_action_from_another_site_is_rejected(
    page: TestClient, catalog: Catalog, executed: Executed, headers: dict[str, str]
) -> None:
    stream = add_stream(catalog)
    answer = page.post(f"/api/jobs/{stream}/pause", json={"sql": "PAUSE STREAM power.avg_v"}, headers=headers)
    assert answer.status_code == 403
    assert executed.statements == []


def test_a_failed_statement_returns_message_and_hint(page: TestClient, catalog: Catalog, executed: Executed) -> None:
    stream = add_stream(catalog)
    executed.error = OperationalError("the catalog is busy", hint="try again")
    answer = page.post(f"/api/jobs/{stream}/pause", json={"sql": "PAUSE STREAM power.avg_v"}, headers=ACTION)
    assert answer.status_code == 503
    assert answer.json() == {"code": "OPERATIONAL", "message": "the catalog is busy", "hint": "try again"}


def test_unknown_actions_and_streams_are_rejected(page: TestClient, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    assert page.post(f"/api/jobs/{stream}/explode", json={"sql": "x"}, headers=ACTION).status_code == 409
    assert page.get("/api/jobs/nothing").status_code == 404


def test_an_unreadable_catalog_is_reported(home: Settings, rights: Rights, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("no folder")
    broken = home.replace({"home": tmp_path / "file" / "home"})
    with TestClient(create_app(rights, broken), raise_server_exceptions=False) as page:
        answer = page.get("/api/jobs")
    assert answer.status_code == 503
    assert "cannot be created" in answer.json()["message"]


def test_an_snode_has_its_problem(page: TestClient, catalog: Catalog) -> None:
    add_stream(catalog)
    (snode,) = page.get("/api/jobs").json()["snodes"]
    assert (snode["name"], snode["problem"], snode["dag_id"]) == ("default", "is not running", "headrace_snode__default")


@pytest.mark.airflow
def test_airflow_decides_who_the_user_is(home: Settings, catalog: Catalog) -> None:
    """With Airflow's access control, requests without a login are rejected."""
    from headrace.web.airflow_access import AirflowAccess

    stream = add_stream(catalog)
    with TestClient(create_app(AirflowAccess(), home), raise_server_exceptions=False) as page:
        assert page.get("/api/jobs").status_code == 401
        assert page.post(f"/api/jobs/{stream}/pause", json={"sql": "x"}, headers=ACTION).status_code == 401


@pytest.mark.airflow
@pytest.mark.parametrize(("role", "may_edit"), [("viewer", False), ("user", True), ("admin", True)])
def test_airflow_decides_what_the_user_may_do(role: str, may_edit: bool) -> None:
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from headrace.web.airflow_access import AirflowAccess

    create_auth_manager()
    user = SimpleAuthManagerUser(username="vera", role=role)
    access = AirflowAccess()
    assert access.readable_dags(user, {"headrace_stream__power__avg_v"}) == {"headrace_stream__power__avg_v"}
    assert access.can_edit(user, "headrace_stream__power__avg_v") is may_edit
    assert access.can_delete(user, "headrace_stream__power__avg_v") is may_edit
    assert access.user_name(user) == "vera"


def test_large_bodies_are_refused_before_anyone_is_known(page: TestClient, rights: Rights) -> None:
    rights.logged_in = False
    assert page.post("/api/worksheet/run", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert page.post("/api/worksheet/run", content=iter([b"x"])).status_code == 411
    assert page.post("/api/worksheet/run", content=b"{}").status_code == 403
