"""The DAGs of pipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable

import headrace
from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobState, StopReason
from headrace.model.ledger import ChunkState
from headrace.pipes.kind import PIPE
from headrace.runtime.dag_ids import job_from_dag_id
from headrace.runtime.supervision import SupervisionStatus, Supervisor, read_snapshot
from headrace.settings import Settings, current
from tests.airflow.conftest import NOW
from tests.support.pipes import ENCRYPTED, add_pipe

pytestmark = pytest.mark.airflow

OUT = "headrace_pipe__out"


def generated(only: str | None = None) -> dict[str, Any]:
    from headrace_generators import generate

    return {dag.dag_id: dag for dag in generate(only)}


def test_a_pipe_is_supervised_once(catalog: Catalog) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    add_pipe(catalog)
    dags = generated()
    assert set(dags) == {OUT, "headrace_snode__default"}
    assert job_from_dag_id(OUT) == ("pipe", "", "out")
    assert [task.task_id for task in generated(OUT)[OUT].tasks] == [
        "plan_history",
        "transfer_history",
        "end_transfer",
        "supervise",
    ]
    dag = DagSerialization.from_dict(DagSerialization.to_dict(dags[OUT]))
    assert (dag.catchup, dag.is_paused_upon_creation) == (False, False)


def test_the_documentation_of_a_dag_has_the_statement_without_its_password(catalog: Catalog, home: Settings) -> None:
    add_pipe(catalog)
    doc = generated()[OUT].doc_md
    assert "CREATE PIPE out WITH SOURCE ('source'='iotdb-source', 'source.path'='root.plant.**')" in doc
    assert "'sink.password'='******'" in doc
    assert ENCRYPTED not in doc
    cached = next((home.home_path / "airflow").glob("*.json"))
    assert cached.stat().st_mode & 0o077 == 0


def test_the_supervision_reports_why_a_pipe_has_failed_and_ends_when_it_is_dropped(catalog: Catalog) -> None:
    reason = StopReason("DATA", "the type of s1 differs", "fix the cause, then run START PIPE", NOW)
    id = add_pipe(catalog, state=JobState.STOPPED, reason=reason)
    supervisor = Supervisor(id, heartbeat_ms=1_000, lease_ms=10_000)
    result = supervisor.check(read_snapshot(catalog, NOW))
    assert (result.status, result.reason) == (SupervisionStatus.STOPPED, reason)
    catalog.jobs.drop(id)
    assert supervisor.check(read_snapshot(catalog, NOW)).status is SupervisionStatus.DROPPED


POINTS = ", ".join(f"({minute * 60_000}, {minute})" for minute in range(10))


@pytest.fixture
def copied(home: Settings, clock: ManualClock, tmp_path: Path) -> str:
    """Create a pipe from ten points to a Delta table, and return its id."""
    with headrace.connect(settings=home, dialect="iotdb", clock=clock) as connection:
        connection.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
        connection.execute(f"insert into root.plant.line1(time, s1) values {POINTS}")
        connection.execute(f"create pipe out with sink ('sink'='delta-sink', 'sink.uri'='{tmp_path / 'copy'}')")
        id: str = connection.session.context.catalog.jobs.get("", "out", PIPE).definition.id
        return id


def planned(id: str, run_type: str, **form: str) -> list[list[str]]:
    from headrace_operators import PlanTransfer

    context = {"dag_run": SimpleNamespace(run_type=run_type), "params": {"from": None, "to": None} | form, "run_id": "r"}
    return PlanTransfer(task_id="plan_history", job_id=id).execute(context)


def transfer(arguments: list[str]) -> None:
    """Run the script of a task as spark-submit does, though it needs no Spark."""
    script = Path(__file__).parents[2] / "spark_jobs" / "transfer_history.py"
    subprocess.run([sys.executable, str(script), *arguments], check=True)


def copies(tmp_path: Path) -> list[int]:
    values: list[int] = sorted(DeltaTable(tmp_path / "copy").to_pyarrow_table()["s1"].to_pylist())
    return values


def test_tasks_transfer_a_large_history_in_chunks(
    copied: str, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(copied, "scheduled") == [], "the snode transfers a small one"
    monkeypatch.setenv("HEADRACE_RESIDENT_HISTORY_ROWS", "0")
    current.cache_clear()
    chunks = planned(copied, "scheduled")
    assert chunks == [["--pipe", copied, "--run", "history", "--chunk", "0"]]
    transfer(chunks[0])
    assert copies(tmp_path) == list(range(10))
    assert [chunk.state for chunk in catalog.ledger.chunks(copied, "history")] == [ChunkState.DONE]
    assert planned(copied, "scheduled") == []


def test_a_manual_run_transfers_a_range_again(copied: str, home: Settings, clock: ManualClock, tmp_path: Path) -> None:
    with headrace.connect(settings=home, dialect="iotdb", clock=clock) as connection:
        connection.settle()
    DeltaTable(tmp_path / "copy").delete()
    form = {"from": "1970-01-01T00:02:00", "to": "1970-01-01T00:05:00Z"}
    chunks = planned(copied, "manual", **form)
    assert [chunk[3] for chunk in chunks] == ["airflow/r"]
    transfer(chunks[0])
    assert copies(tmp_path) == [2, 3, 4]
    assert [chunk[3] for chunk in planned(copied, "manual", **form)] == ["airflow/r/2"], "the task was cleared"


def test_a_pipe_whose_history_cannot_be_transferred_is_stopped_until_its_task_is_cleared(copied: str, catalog: Catalog) -> None:
    from headrace_operators import TransferChunk, stop_stream_on_failure

    arguments = ["--pipe", copied, "--run", "history", "--chunk", "0"]
    task = TransferChunk(task_id="transfer_history", job_id=copied, application="", application_args=arguments)
    stop_stream_on_failure({"dag_run": SimpleNamespace(run_type="scheduled"), "task": task, "exception": "db.example is down"})
    record = catalog.jobs.by_id(copied)
    assert record.state is JobState.STOPPED
    assert str(record.reason) == (
        "[BACKFILL] chunk 0 of the history could not be filled: db.example is down "
        "(fix the cause, then run START PIPE, or clear the failed task)"
    )
    planned(copied, "scheduled")
    assert catalog.jobs.by_id(copied).state is JobState.RUNNING
