"""The DAG that maintains tables and removes what is no longer needed."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pendulum
from airflow.sdk import DAG

from headrace.runtime.dag_ids import MAINTENANCE_DAG
from headrace.settings import Settings
from headrace_maintenance import DeleteOldRuns, MaintainTables

DOC: Final = """
Maintains Headrace, on the schedule of `HEADRACE_MAINTENANCE_SCHEDULE`.

* `maintain_tables` compacts small files, removes files that nothing has needed for `HEADRACE_MAINTENANCE_KEEP_HOURS`, and drops
  tables whose TTL has passed. Streams keep running, and what they have yet to read is kept. Its XCom says what was done.
* `delete_old_runs` deletes runs of Headrace's DAGs that ended more than `HEADRACE_KEEP_RUNS_DAYS` days ago.

Trigger it at any time. It takes one slot of the pool of backfills, so that it waits for them and they for it.
"""


def maintenance_dag(settings: Settings) -> DAG:
    """Build the DAG."""
    with DAG(
        MAINTENANCE_DAG,
        schedule=settings.maintenance_schedule,
        start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["headrace", "maintenance"],
        description="Compacts tables and removes what is no longer needed",
        doc_md=DOC,
        default_args={"owner": "headrace", "retries": 1, "retry_delay": timedelta(minutes=5)},
    ) as dag:
        MaintainTables(
            task_id="maintain_tables", pool=settings.backfill_pool, execution_timeout=timedelta(seconds=settings.task_timeout_s)
        )
        DeleteOldRuns(task_id="delete_old_runs")
    return dag
