"""The end of the system that the tests before have used."""

from __future__ import annotations

import psutil
import pytest

from headrace.runtime import embedded_airflow
from headrace.runtime.processes import find_marked
from tests.airflow.running import RunningSystem

pytestmark = [pytest.mark.airflow, pytest.mark.e2e, pytest.mark.timeout(3600)]


DROPPED = ("headrace_stream__power__avg_v", "headrace_stream__power__levels", "headrace_cq__killed", "headrace_cq__often")
"""DAGs of jobs that were dropped long ago: Airflow removes a DAG a minute after the last file that had it."""


@pytest.mark.parametrize("dag", DROPPED)
def test_the_dag_of_a_dropped_job_disappears(up: RunningSystem, dag: str) -> None:
    up.until(lambda: up.client.dag(dag) is None, f"the DAG {dag} to disappear")


def test_stopping_leaves_no_process_behind(up: RunningSystem) -> None:
    pids = [process.pid for process in find_marked(up.settings.home_path)]
    assert len(pids) >= 4
    embedded_airflow.stop(up.settings)
    assert find_marked(up.settings.home_path) == []
    remaining = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
    assert remaining == []
    assert embedded_airflow.stop(up.settings).ended == 0
