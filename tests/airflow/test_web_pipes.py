"""The page's server: pipes, beside streams."""

from __future__ import annotations

from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.model.jobs import DesiredState, JobCounters, JobProgress, JobState, StopReason
from headrace.model.ledger import Chunk
from headrace.model.pipes import NEXT_CHUNK
from headrace.model.positions import Position
from tests.airflow.conftest import NOW
from tests.airflow.web_page import ACTION, Executed, only_job
from tests.catalog.samples import stream_sample
from tests.support.pipes import CREATED, ENCRYPTED, add_pipe

COUNTERS = JobCounters(rows_out=20, bytes_out=320, rows_pending=8, batches=3, failures=1)
PROGRESS = JobProgress(Position(3, {}), updated=NOW - 500, pending_since=NOW - 2_000, counters=COUNTERS)
DOWN = StopReason("OPERATIONAL", "db.example:6667 refuses connections", "start the receiver", NOW - 5_000)


def test_a_pipe_is_listed_with_its_ends_its_lag_and_what_remains(page: TestClient, catalog: Catalog) -> None:
    id = add_pipe(catalog, progress=PROGRESS)
    catalog.stream_metrics.add([stream_sample(id, NOW - 1_000)], keep_ms=10_000)
    shown = only_job(page)
    assert (shown["kind"], shown["label"], shown["layout"], shown["state"]) == ("pipe", "out", "pipe", "RUNNING")
    assert (shown["source"], shown["target"]) == ("iotdb-source root.plant.**", "iotdb-thrift-sink db.example")
    assert (shown["lag_ms"], shown["remaining"], shown["remaining_ms"]) == (2_000, 8, 4_000)
    assert shown["rate"] == {"time": NOW - 1_000, "rows_in": 20.0, "rows_out": 2.0, "bytes_out": 0.0}
    assert shown["history"] == [2.0]
    assert shown["dag_id"] == "headrace_pipe__out"
    assert page.get("/api/jobs").json()["kinds"]["pipe"] == {"plural": "pipes", "address": "pipe"}


def test_what_remains_of_a_pipe_that_has_not_run_is_unknown(page: TestClient, catalog: Catalog) -> None:
    add_pipe(catalog, state=JobState.CREATED)
    shown = only_job(page)
    assert (shown["lag_ms"], shown["remaining"], shown["remaining_ms"]) == (None, None, None)
    assert shown["state_text"] == "recorded, not started by its snode yet"


def test_a_pipe_shows_its_stages_and_histories_without_passwords(page: TestClient, catalog: Catalog) -> None:
    id = add_pipe(catalog, progress=PROGRESS)
    catalog.stream_metrics.add([stream_sample(id, NOW - 1_000)], keep_ms=10_000)
    answer = page.get(f"/api/jobs/{id}")
    assert ENCRYPTED not in answer.text
    detail = answer.json()
    assert detail["stages"] == [
        {"stage": "source", "plugin": "iotdb-source", "attributes": [["source", "iotdb-source"], ["source.path", "root.plant.**"]]},
        {"stage": "processor", "plugin": "do-nothing-processor", "attributes": []},
        {
            "stage": "sink",
            "plugin": "iotdb-thrift-sink",
            "attributes": [["sink", "iotdb-thrift-sink"], ["sink.ip", "db.example"], ["sink.password", "******"]],
        },
    ]
    assert detail["started"] == CREATED + 1_000
    series = page.get(f"/api/jobs/{id}/metrics").json()["series"]
    assert [value for value in series["rows_out_s"] if value is not None] == [2.0]
    assert [value for value in series["lag_ms"] if value is not None] == [5]
    plan = page.get(f"/api/jobs/{id}/plan").json()["plan"]
    assert plan.splitlines()[1:] == [
        "processor do-nothing-processor",
        "sink iotdb-thrift-sink: sink=iotdb-thrift-sink, sink.ip=db.example, sink.password=******",
    ]


def test_a_pipe_is_stopped_started_and_dropped(page: TestClient, catalog: Catalog, executed: Executed) -> None:
    id = add_pipe(catalog)
    actions = page.get(f"/api/jobs/{id}").json()["actions"]
    assert [(action["label"], action["sql"]) for action in actions] == [("stop", "STOP PIPE out"), ("drop", "DROP PIPE out")]
    assert page.post(f"/api/jobs/{id}/pause", json={"sql": "STOP PIPE out"}, headers=ACTION).status_code == 200
    catalog.jobs.set_desired(id, DesiredState.PAUSED)
    actions = page.get(f"/api/jobs/{id}").json()["actions"]
    assert [(action["label"], action["sql"]) for action in actions] == [("start", "START PIPE out"), ("drop", "DROP PIPE out")]
    assert page.post(f"/api/jobs/{id}/resume", json={"sql": "START PIPE out"}, headers=ACTION).status_code == 200
    assert executed.statements == ["STOP PIPE out", "START PIPE out"]
    assert set(executed.dialects) == {"iotdb"}


def test_why_a_pipe_has_failed_is_shown(page: TestClient, catalog: Catalog) -> None:
    id = add_pipe(catalog, state=JobState.STOPPED, reason=DOWN)
    assert only_job(page)["reason"]["message"] == "db.example:6667 refuses connections"
    assert [action["label"] for action in page.get(f"/api/jobs/{id}").json()["actions"]] == ["start", "drop"]


def test_the_transfer_of_a_history_is_shown_with_its_chunks(page: TestClient, catalog: Catalog) -> None:
    id = add_pipe(catalog, progress=JobProgress(Position(3, {NEXT_CHUNK: 1}), updated=NOW))
    assert only_job(page)["backfill"] is None, "it is not planned yet"
    chunks = [Chunk(id, "history", number, 0, 60_000, 100, first_series=f"root.plant|line{number}") for number in range(2)]
    catalog.ledger.plan(id, "history", chunks)
    catalog.ledger.claim(id, "history", 0)
    catalog.ledger.finish(id, "history", 0, 100)
    shown = only_job(page)["backfill"]
    assert (shown["done"], shown["chunks"], shown["fraction"]) == (1, 2, 0.5)
    detail = page.get(f"/api/jobs/{id}").json()
    assert [(chunk["first_series"], chunk["end_series"], chunk["end"]) for chunk in detail["chunks"]] == [
        ("line0", None, 60_000),
        ("line1", None, 60_000),
    ]
    assert [run["run"] for run in detail["runs"]] == ["history"]


def test_a_pipe_whose_history_is_transferred_shows_no_progress_of_it(page: TestClient, catalog: Catalog) -> None:
    id = add_pipe(catalog, progress=PROGRESS)
    catalog.ledger.plan(id, "history", [Chunk(id, "history", 0, 0, 60_000, 100)])
    assert only_job(page)["backfill"] is None
