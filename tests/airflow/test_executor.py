"""A scheduler that fails ends at once, although a task of its executor runs for ever."""

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
