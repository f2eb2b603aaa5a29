"""The page's server: continuous queries, beside streams."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobState, StopReason
from headrace.runtime.dag_ids import job_from_dag_id
from headrace.settings import Settings
from headrace.web.app import create_app
from tests.airflow.conftest import NOW
from tests.airflow.query_samples import BLOCKED, DISCARD, EVERY, FIRST, SQL, add_query, done, failed
from tests.airflow.samples import add_stream
from tests.airflow.web_page import ACTION, Executed, Rights, only_job

FAILED = StopReason("DATA", "line1.s1 overflows", "fix the cause, then RESUME CONTINUOUS QUERY", NOW - 5_000)


def test_streams_and_continuous_queries_are_listed_alike(page: TestClient, catalog: Catalog) -> None:
    add_stream(catalog, "tens")
    add_query(catalog, "tens", JobState.STOPPED, FAILED)
    answer = page.get("/api/jobs").json()
    listed = {(job["kind"], job["label"], job["state"]) for job in answer["jobs"]}
    assert listed == {("stream", "power.tens", "RUNNING"), ("continuous query", "tens", "STOPPED")}
    assert answer["health"]["kinds"] == {"stream": 1, "continuous query": 1, "pipe": 0}
    assert (answer["health"]["states"]["RUNNING"], answer["health"]["states"]["STOPPED"]) == (1, 1)
    stream, query = sorted(answer["jobs"], key=lambda job: job["label"])
    assert stream.keys() - query.keys() == {"batch_ms", "slow_batch", "backfill"}
    assert query["reason"]["message"] == "line1.s1 overflows"


def test_a_query_has_no_windows(page: TestClient, catalog: Catalog) -> None:
    answer = page.get(f"/api/jobs/{add_query(catalog)}/windows")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_SUPPORTED")


def test_a_query_has_its_schedule_its_last_execution_and_its_lag(page: TestClient, catalog: Catalog, clock: ManualClock) -> None:
    query = add_query(catalog)
    done(catalog, query, *range(FIRST, NOW - EVERY, EVERY))
    clock.advance(4_000)
    shown = only_job(page)
    assert (shown["source"], shown["target"], shown["lag_ms"], shown["waiting"]) == (
        "root.plant.line1",
        "root.agg.line1",
        EVERY + 4_000,
        2,
    )
    expected = {"every_ms": EVERY, "start_offset_ms": EVERY, "end_offset_ms": 0, "policy": "BLOCKED", "next": NOW + EVERY}
    assert expected.items() <= shown["schedule"].items()
    assert shown["schedule"]["timezone"] == "Europe/Berlin"
    assert (shown["last"]["scheduled"], shown["last"]["state"], shown["last"]["rows"]) == (NOW - 2 * EVERY, "DONE", 4)
    assert (shown["counters"]["rows_out"], shown["counters"]["batches"]) == (4 * 29, 29)
    assert job_from_dag_id(shown["dag_id"]) is not None
    assert page.get("/api/jobs").json()["health"]["worst_lag"] == {"ms": EVERY + 4_000, "name": "tens", "address": {"cq": "tens"}}


@pytest.mark.parametrize(("desired", "state"), [(DesiredState.PAUSED, JobState.RUNNING), (DesiredState.RUNNING, JobState.STOPPED)])
def test_a_query_that_is_not_executed_has_no_next_execution(
    page: TestClient, catalog: Catalog, desired: DesiredState, state: JobState
) -> None:
    catalog.jobs.set_desired(add_query(catalog, state=state), desired)
    assert only_job(page)["schedule"]["next"] is None


@pytest.mark.parametrize(("every", "executor"), [(59_000, "a timer of snode default"), (60_000, "Airflow")])
def test_a_query_says_who_executes_it(page: TestClient, catalog: Catalog, every: int, executor: str) -> None:
    add_query(catalog, schedule=replace(BLOCKED, every=every))
    assert only_job(page)["executor"].startswith(executor)


def states(executions: list[dict[str, Any]]) -> list[str]:
    return [execution["state"] for execution in executions]


def test_the_intervals_are_those_recorded_missed_and_due(page: TestClient, catalog: Catalog) -> None:
    blocked, discard = add_query(catalog, "blocked"), add_query(catalog, "discard", schedule=DISCARD)
    for query in (blocked, discard):
        done(catalog, query, *range(FIRST, NOW - 5 * EVERY, EVERY))
        failed(catalog, query, NOW - 4 * EVERY, "no space")
    rows = {job["label"]: job["intervals"] for job in page.get("/api/jobs").json()["jobs"]}
    assert states(rows["blocked"]) == ["DONE"] * 14 + ["PENDING", "FAILED", "PENDING", "PENDING", "PENDING", "PENDING"]
    assert states(rows["discard"]) == ["DONE"] * 14 + ["MISSED", "FAILED", "MISSED", "MISSED", "MISSED", "PENDING"]
    assert [interval["scheduled"] for interval in rows["blocked"]] == list(range(NOW - 19 * EVERY, NOW + 1, EVERY))


def test_the_detail_has_the_executions_with_range_rows_duration_attempt_and_message(
    page: TestClient, catalog: Catalog, clock: ManualClock
) -> None:
    query = add_query(catalog)
    done(catalog, query, FIRST)
    failed(catalog, query, FIRST + EVERY, "no space")
    claimed = catalog.executions.claim(query, BLOCKED, FIRST + EVERY, "test")
    clock.advance(250)
    catalog.executions.fail(claimed, "still no space")
    catalog.events.record("job", query, "PAUSED", "by a person")
    detail = page.get(f"/api/jobs/{query}").json()
    assert (detail["sql"], detail["dialect"], detail["events"][0]["kind"]) == (SQL.format(name="tens"), "iotdb", "PAUSED")
    newest, *_, second, first = detail["executions"]
    assert (newest["state"], newest["attempt"], newest["scheduled"]) == ("PENDING", None, NOW)
    fields = ("start", "end", "state", "attempt", "rows", "duration_ms", "message")
    assert [second[name] for name in fields] == [FIRST, FIRST + EVERY, "FAILED", 2, None, 250, "still no space"]
    assert [first[name] for name in fields] == [FIRST - EVERY, FIRST, "DONE", 1, 4, 0, None]
    assert len(detail["executions"]) == 31
    assert detail["intervals"] == detail["executions"][::-1]


def test_old_executions_that_are_not_done_are_listed_after_the_newest(
    page: TestClient, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.web import query_view

    monkeypatch.setattr(query_view, "MAX_EXECUTIONS", 5)
    query = add_query(catalog)
    done(catalog, query, *range(FIRST, NOW + 1, EVERY))
    assert page.get(f"/api/jobs/{query}").json()["has_older"]
    failed(catalog, query, FIRST, "no space")
    executions = page.get(f"/api/jobs/{query}").json()["executions"]
    assert states(executions) == ["DONE"] * 5 + ["FAILED"]


def test_the_plan_is_that_of_the_next_execution(page: TestClient, catalog: Catalog, home: Settings) -> None:
    query = add_query(catalog)
    assert "no series match" in page.get(f"/api/jobs/{query}/plan").json()["plan"]
    with headrace.connect(settings=home, dialect="iotdb") as connection:
        connection.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
    lines = page.get(f"/api/jobs/{query}/plan").json()["plan"].splitlines()
    assert lines[0].startswith("execution of 2026-")
    assert any("root.plant" in line for line in lines)
    assert lines[-1].endswith("to root.agg.line1.c")


@pytest.mark.parametrize(
    ("state", "desired", "statements"),
    [
        (JobState.RUNNING, DesiredState.RUNNING, ["PAUSE CONTINUOUS QUERY tens", "DROP CONTINUOUS QUERY tens"]),
        (JobState.PAUSED, DesiredState.PAUSED, ["RESUME CONTINUOUS QUERY tens", "DROP CONTINUOUS QUERY tens"]),
        (JobState.STOPPED, DesiredState.RUNNING, ["RESUME CONTINUOUS QUERY tens", "DROP CONTINUOUS QUERY tens"]),
    ],
)
def test_the_actions_are_statements_of_the_query_s_dialect(
    page: TestClient, catalog: Catalog, executed: Executed, state: JobState, desired: DesiredState, statements: list[str]
) -> None:
    query = add_query(catalog, state=state)
    catalog.jobs.set_desired(query, desired)
    shown = page.get(f"/api/jobs/{query}").json()["actions"]
    assert [action["sql"] for action in shown] == statements
    assert [shlex.split(action["command"]) for action in shown] == [
        ["headrace", "sql", "--dialect", "iotdb", sql] for sql in statements
    ]
    answer = page.post(f"/api/jobs/{query}/{shown[0]['action']}", json={"sql": statements[0]}, headers=ACTION)
    assert (answer.status_code, executed.statements, executed.dialects) == (200, [statements[0]], ["iotdb"])


@pytest.mark.parametrize(("of_query", "effect"), [(BLOCKED, "in order"), (DISCARD, "only the latest")])
def test_the_effect_of_resuming_depends_on_the_policy(page: TestClient, catalog: Catalog, of_query: Any, effect: str) -> None:
    query = add_query(catalog, schedule=of_query)
    catalog.jobs.set_desired(query, DesiredState.PAUSED)
    assert effect in page.get(f"/api/jobs/{query}").json()["actions"][0]["effect"]


def test_the_service_runs_the_actions(home: Settings, catalog: Catalog, rights: Rights) -> None:
    query = add_query(catalog, "my query")
    with TestClient(create_app(rights, home), raise_server_exceptions=False) as page:
        for name, desired in (("pause", DesiredState.PAUSED), ("resume", DesiredState.RUNNING)):
            action = page.get(f"/api/jobs/{query}").json()["actions"][0]
            assert action["sql"] == f"{name.upper()} CONTINUOUS QUERY `my query`"
            assert page.post(f"/api/jobs/{query}/{name}", json={"sql": action["sql"]}, headers=ACTION).status_code == 200
            assert catalog.jobs.by_id(query).desired is desired
        drop = {"json": {"sql": "DROP CONTINUOUS QUERY `my query`"}, "headers": ACTION}
        assert page.post(f"/api/jobs/{query}/drop", **drop).status_code == 200
        assert page.get("/api/jobs").json()["jobs"] == []


def test_the_command_names_the_dialect_unless_it_is_the_default(home: Settings, catalog: Catalog, rights: Rights) -> None:
    query, stream = add_query(catalog), add_stream(catalog)
    with TestClient(create_app(rights, home.replace({"dialect": "iotdb"}))) as page:
        commands = [page.get(f"/api/jobs/{job}").json()["actions"][0]["command"] for job in (query, stream)]
    assert commands == ["headrace sql 'PAUSE CONTINUOUS QUERY tens'", "headrace sql --dialect tdengine 'PAUSE STREAM power.avg_v'"]


def test_a_query_that_may_not_be_read_is_answered_like_one_that_does_not_exist(
    page: TestClient, catalog: Catalog, rights: Rights
) -> None:
    query = add_query(catalog)
    rights.hidden = {only_job(page)["dag_id"]}
    hidden, missing = page.get(f"/api/jobs/{query}"), page.get("/api/jobs/nothing")
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.json()["hint"] == missing.json()["hint"] == "it was dropped, or you have no right to read its DAG"
    assert hidden.json()["message"] == missing.json()["message"].replace("nothing", query)
    assert page.get("/api/jobs").json()["jobs"] == []
