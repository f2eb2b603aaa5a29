"""The DAG that looks for what does not fail a task: lag, late queries, quarantines and snodes that are away."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pendulum
from airflow.sdk import DAG

from headrace.runtime.dag_ids import ALERTS_DAG
from headrace.settings import Settings
from headrace_alerts import CheckAlerts

DOC: Final = """
Looks every `HEADRACE_ALERT_EVERY_S` seconds for snodes without a driver, jobs that are more than `HEADRACE_ALERT_LAG_S` seconds
behind, and quarantines that grow, and sends what has begun or ended since the last look. Its XCom says what is wrong now.
"""


def alerts_dag(settings: Settings) -> DAG:
    """Build the DAG."""
    with DAG(
        ALERTS_DAG,
        schedule=timedelta(seconds=settings.alert_every_s),
        start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["headrace", "alerts"],
        description="Sends alerts for jobs and snodes",
        doc_md=DOC,
        default_args={"owner": "headrace", "retries": 0},
    ) as dag:
        CheckAlerts(task_id="check", execution_timeout=timedelta(seconds=settings.alert_every_s))
    return dag
