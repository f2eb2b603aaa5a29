"""The DAG of an snode: one task that is the resident Spark driver."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from headrace.runtime.dag_ids import SPARK_CONNECTION, snode_dag_id
from headrace.settings import Settings
from headrace_operators import SparkJob
from headrace_timetable import BackToBack

DOC = """
The resident Spark driver of the snode `{name}`: it computes the snode's streams and answers SQL.

* It starts by itself. When it has ended well, the next run starts it again at once; when it failed, the task is tried again
  after a pause that doubles up to a minute.
* A run's dates count runs (each is a microsecond after the one before) and say nothing of when it ran: its start does.
* While it is away, its streams are STOPPED and say so; they go on by themselves when it is back.
* Marking the task failed kills the driver. Pausing this DAG keeps it from being started again.
* It holds one worker slot, and no slot of the backfills' pool.
"""


def snode_dag(name: str, settings: Settings) -> DAG:
    """Make the DAG. A run that has ended, well or not, is followed by the next."""
    with DAG(
        snode_dag_id(name),
        schedule=BackToBack(),
        max_active_runs=1,
        catchup=False,
        is_paused_upon_creation=False,
        tags=["headrace", "snode"],
        description=f"Keeps the driver of snode {name} alive",
        doc_md=DOC.format(name=name),
        default_args={"owner": "headrace"},
    ) as dag:
        SparkJob(
            task_id="driver",
            conn_id=SPARK_CONNECTION,
            application=str(settings.project / "spark_jobs" / "snode.py"),
            application_args=["--snode", name, "--no-fill"],
            name=f"headrace-snode-{name}",
            spark_binary=str(settings.project / "bin" / "spark-submit-guard"),
            retries=20,
            retry_delay=timedelta(seconds=1),
            retry_exponential_backoff=2.0,
            max_retry_delay=timedelta(minutes=1),
        )
    return dag
