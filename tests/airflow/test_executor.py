"""The drivers of snodes, which run until they are stopped: other tasks run beside them, and a scheduler that fails ends at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.airflow

PLUGINS = Path(__file__).resolve().parent.parent.parent / "plugins"
SCHEDULER = """
import multiprocessing, time
from headrace_executor import LocalExecutor

context = multiprocessing.get_context("fork")
executor = LocalExecutor(parallelism=1)
executor.drivers = {}
executor.is_tested = True
executor.activity_queue = context.SimpleQueue()
worker = context.Process(target=time.sleep, args=(600,))
worker.start()
executor.workers = {worker.pid: worker}
print("worker", worker.pid, flush=True)
try:
    raise RuntimeError("the database is locked")
finally:
    executor.end()
"""
TASKS = """
import os, pathlib, time
from airflow.executors.base_executor import BaseExecutor

folder = pathlib.Path(os.environ["RUN_FOLDER"])

def run_workload(workload, **_):
    (folder / workload.ti.dag_id).touch()
    while workload.ti.dag_id.startswith("headrace_snode__") and not (folder / "stop").exists():
        time.sleep(0.05)

BaseExecutor.run_workload = staticmethod(run_workload)
"""
DRIVERS = """
import multiprocessing
multiprocessing.set_start_method("forkserver")
multiprocessing.set_forkserver_preload(["tasks"])
from airflow.executors.workloads import ExecuteTask
from airflow.executors.workloads.task import TaskInstanceDTO
from airflow.models.dagrun import DagRun
from headrace.airflow.examined_runs import order_examined_runs
from headrace_executor import LocalExecutor
from tasks import folder

executor = LocalExecutor(parallelism=2)
executor.start()
ordered = DagRun.get_running_dag_runs_to_examine
order_examined_runs()
assert DagRun.get_running_dag_runs_to_examine is ordered
print("examined by", DagRun.get_running_dag_runs_to_examine.__module__)
for number, dag in enumerate([*(f"headrace_snode__s{number}" for number in range(8)), "headrace_stream__power__avg_v"]):
    key = {"dag_id": dag, "task_id": "t", "run_id": "r", "try_number": 1, "map_index": -1}
    ti = TaskInstanceDTO.model_construct(id=dag, priority_weight=number, **key)
    executor.queue_workload(ExecuteTask.model_construct(ti=ti), None)
while not any(key.dag_id == "headrace_stream__power__avg_v" for key in executor.event_buffer):
    executor.heartbeat()
while len(list(folder.glob("headrace_*"))) < 9:
    executor.heartbeat()
print("all run beside", len(executor.drivers), "drivers in", executor.slots_occupied, "slots", flush=True)
key, worker = next(iter(executor.drivers.items()))
worker.process.kill()
while key not in executor.event_buffer:
    executor.heartbeat()
(folder / "stop").touch()
executor.end()
print("ended", sorted(str(state) for state, _ in executor.event_buffer.values()))
"""
UNTESTED = """
import multiprocessing
multiprocessing.set_start_method("forkserver")
multiprocessing.set_forkserver_preload(["tasks"])
from headrace.runtime import airflow_versions
airflow_versions.BELOW = airflow_versions.MINIMUM
from airflow.executors.workloads import ExecuteTask
from airflow.executors.workloads.task import TaskInstanceDTO
from airflow.models.dagrun import DagRun
from headrace_executor import LocalExecutor
from tasks import folder

(folder / "stop").touch()
executor = LocalExecutor(parallelism=2)
executor.start()
print("examined by", DagRun.get_running_dag_runs_to_examine.__module__)
key = {"dag_id": "headrace_snode__default", "task_id": "t", "run_id": "r", "try_number": 1, "map_index": -1}
executor.queue_workload(ExecuteTask.model_construct(ti=TaskInstanceDTO.model_construct(id="d", priority_weight=1, **key)), None)
while not executor.event_buffer:
    executor.heartbeat()
executor.end()
print("ended", [str(state) for state, _ in executor.event_buffer.values()], len(executor.drivers))
"""


def run_executor(script: str, folder: Path) -> list[str]:
    """Run a script with an executor, and return the lines that tests look at."""
    (folder / "tasks.py").write_text(TASKS)
    environment = os.environ | {"PYTHONPATH": f"{PLUGINS}{os.pathsep}{folder}", "RUN_FOLDER": str(folder)}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True
    )
    return [line for line in process.stdout.splitlines() if line.startswith(("examined", "all run", "ended"))]


def test_an_airflow_that_was_not_tested_runs_drivers_as_other_tasks(tmp_path: Path) -> None:
    assert run_executor(UNTESTED, tmp_path) == ["examined by airflow.models.dagrun", "ended ['success'] 0"]


def test_eight_drivers_leave_all_slots_to_other_tasks(tmp_path: Path) -> None:
    """There are two slots, fewer than drivers. A driver whose worker is killed has failed."""
    assert run_executor(DRIVERS, tmp_path) == [
        "examined by headrace.airflow.examined_runs",
        "all run beside 8 drivers in 0 slots",
        f"ended {['failed', *['success'] * 8]}",
    ]


def test_a_scheduler_that_fails_does_not_wait_for_its_tasks(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(PLUGINS)}
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen([sys.executable, "-c", SCHEDULER], env=environment, stdout=output, stderr=output)
    try:
        code = process.wait(timeout=60)
    finally:
        process.kill()
        worker = psutil.Process(int(re.findall(r"worker (\d+)", log.read_text())[0]))
        worker.kill()
    assert (code, "since it failed" in log.read_text()) == (1, True)
