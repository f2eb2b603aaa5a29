"""The DAG of an snode, whose only task is the resident Spark driver."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow.sdk import DAG

from headrace.runtime.dag_ids import SPARK_CONNECTION, snode_dag_id
from headrace.settings import Settings
from headrace_operators import SnodeDriver
from headrace_timetable import BackToBack

DRIVER_PRIORITY: Final = 1_000
"""Above that of any other task, since nothing else works without drivers. Airflow's default is the number of tasks that follow."""

DOC_TEMPLATE = """
The resident Spark driver of snode `{name}`, which runs the snode's streams and answers SQL.

* The driver starts automatically. After a clean exit, the next run starts it again immediately. After a failure, the task is
  retried with a delay that doubles up to a minute.
* The logical dates of runs only count them, one microsecond apart. See a run's start date for its time.
* While the driver is down, its streams are STOPPED with the reason. They resume when it is back.
* Marking the task as failed kills the driver. Pause this DAG to prevent a restart.
* The driver starts before other tasks that wait. It takes no slot of the backfill pool, and under Headrace's executor none of
  `[core] parallelism`. Another executor needs one slot for each snode.
"""


def snode_dag(name: str, settings: Settings) -> DAG:
    """Build the DAG; each run is followed by the next, whether it succeeded or failed."""
    with DAG(
        snode_dag_id(name),
        schedule=BackToBack(),
        max_active_runs=1,
        catchup=False,
        is_paused_upon_creation=not settings.snodes_in_airflow,
        tags=["headrace", "snode"],
        description=f"Keeps the driver of snode {name} alive",
        doc_md=DOC_TEMPLATE.format(name=name),
        default_args={"owner": "headrace"},
    ) as dag:
        SnodeDriver(
            task_id="driver",
            conn_id=SPARK_CONNECTION,
            application=str(settings.project / "spark_jobs" / "snode.py"),
            application_args=["--snode", name, "--no-fill"],
            name=f"headrace-snode-{name}",
            spark_binary=str(settings.project / "bin" / "spark-submit-guard"),
            priority_weight=DRIVER_PRIORITY,
            weight_rule="absolute",
            retries=20,
            retry_delay=timedelta(seconds=1),
            retry_exponential_backoff=2.0,
            max_retry_delay=timedelta(minutes=1),
        )
    return dag
