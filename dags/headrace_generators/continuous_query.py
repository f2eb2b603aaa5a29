"""The DAG of a continuous query: a run for each execution, or the supervision of a query that its snode executes."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import DAG, Asset, Param
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.definitions.param import ParamsDict

from headrace.model.jobs import JobDefinition
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries.kind import is_resident
from headrace.runtime.dag_ids import SPARK_CONNECTION, asset_uri, definition_dag_id
from headrace.settings import Settings
from headrace_alerts import alert_on_deadline, alert_on_failure, has_receiver
from headrace_generators.job_options import job_options
from headrace_queries import EXECUTE, BeginSupervision, ExecuteQuery, RecomputeQuery, stop_query_on_failure
from headrace_supervision import SuperviseJob
from headrace_timetable import START_DATE, OncePerJob, QuerySchedule

# Form of a manually triggered run, the same for all queries.
FORM_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "from": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "From",
        "description_md": "Repeats all executions whose ranges overlap the time from here on. Default: from the first one.",
    },
    "to": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "To",
        "description_md": "End of this time, exclusive. Default: now. Without both, only the latest execution is repeated.",
    },
}

QUERY_TEMPLATE: Final = """
Continuous query `{name}` writes into {targets}.

```sql
{sql}
```
"""
SCHEDULED_TEMPLATE: Final = """
* **Each run** executes the query once. Its data interval is the range that is computed, so its logical date is the start of the
  range. `SHOW CQ EXECUTIONS {name}` shows what became of it.
* {policy}
* **Clear** a run, or start a **backfill**, to compute intervals again. **Trigger** the DAG to compute all intervals of a range
  again in one run. Rows are replaced, never doubled.
* **Asset** `{asset}` gets an event for each run, with the range that it has computed.
* If `execute` fails for good, the query is STOPPED with the reason that `SHOW CQS` shows, and further runs are skipped. Fix the
  cause, then clear the task or run `RESUME CONTINUOUS QUERY`.
"""
RESIDENT_TEMPLATE: Final = """
* The snode executes this query by its own timer, since it is due often. `SHOW CQ EXECUTIONS {name}` shows its executions.
* **The scheduled run** supervises it: `supervise` fails when the query is STOPPED, with the reason that `SHOW CQS` shows. Fix the
  cause, then clear the task or run `RESUME CONTINUOUS QUERY`.
* **Trigger** this DAG to compute all intervals of a range again. Rows are replaced, never doubled.
"""
POLICIES: Final = {
    TimeoutPolicy.BLOCKED: "**BLOCKED**: every interval is computed, in order. A run first computes what is due and not done "
    "before its own interval, and then in the same process what is due after it. Later runs then have nothing to do.",
    TimeoutPolicy.DISCARD: "**DISCARD**: intervals that fell due while the query could not run are left out, except the latest.",
}
RETRY_DELAY: Final = timedelta(seconds=5)
MAX_RETRY_DELAY: Final = timedelta(minutes=5)


def query_dag(definition: JobDefinition, settings: Settings) -> DAG:
    """Build the DAG from the definition alone, so that Airflow records a new version only if the query changes."""
    build = resident_dag if is_resident(definition, settings) else scheduled_dag
    dag = build(definition, settings)
    # See the DAG of a stream.
    dag.params.update(build_form())
    return dag


def scheduled_dag(definition: JobDefinition, settings: Settings) -> DAG:
    """Build the DAG of a query that Airflow executes, each time in a process of its own."""
    details, schedule = definition.continuous_query, definition.schedule
    assert details is not None
    with DAG(
        schedule=QuerySchedule(schedule, details.generation),
        start_date=START_DATE,
        catchup=schedule.policy is TimeoutPolicy.BLOCKED,
        max_active_runs=1,
        deadline=run_deadline(settings),
        **dag_arguments(
            definition,
            settings,
            SCHEDULED_TEMPLATE.format(name=definition.name, policy=POLICIES[schedule.policy], asset=asset_uri(definition)),
        ),
    ) as dag:
        ExecuteQuery(
            task_id=EXECUTE, on_failure_callback=[stop_query_on_failure, alert_on_failure], **spark_arguments(definition, settings)
        )
    return dag


def run_deadline(settings: Settings) -> DeadlineAlert | None:
    """Return what sends an alert for a run that takes longer than the lag that the settings allow; None without a receiver."""
    if not has_receiver(settings):
        return None
    late_s = settings.alert_lag_s
    return DeadlineAlert(
        DeadlineReference.DAGRUN_QUEUED_AT, timedelta(seconds=late_s), AsyncCallback(alert_on_deadline, {"late_s": late_s})
    )


def resident_dag(definition: JobDefinition, settings: Settings) -> DAG:
    """Build the DAG of a query that its snode executes."""
    with DAG(
        schedule=OncePerJob(definition.created),
        catchup=False,
        # The scheduled run, and two manual runs.
        max_active_runs=3,
        **dag_arguments(definition, settings, RESIDENT_TEMPLATE.format(name=definition.name)),
    ) as dag:
        RecomputeQuery(task_id="recompute", **spark_arguments(definition, settings))
        BeginSupervision(task_id="begin") >> SuperviseJob(task_id="supervise", job_id=definition.id)
    return dag


def dag_arguments(definition: JobDefinition, settings: Settings, doc: str) -> dict[str, Any]:
    """Return what the DAGs of all queries have in common; `doc` is appended to the statement."""
    sql = definition.sql.strip().replace("```", "` ` `")
    details = definition.continuous_query
    targets = ", ".join(f"`{target}`" for target in details.targets) if details else ""
    return {
        "dag_id": definition_dag_id(definition),
        "is_paused_upon_creation": False,
        "description": f"Executes the continuous query {definition.name}",
        "doc_md": QUERY_TEMPLATE.format(name=definition.name, targets=targets, sql=sql) + doc,
        **job_options(definition, settings, "continuous query"),
    }


def spark_arguments(definition: JobDefinition, settings: Settings) -> dict[str, Any]:
    """Return the arguments of a Spark task; the pool limits how many run at a time across all queries."""
    return {
        "job_id": definition.id,
        "conn_id": SPARK_CONNECTION,
        "application": str(settings.project / "spark_jobs" / "continuous_query.py"),
        "name": f"headrace-cq-{definition.name}",
        "spark_binary": str(settings.project / "bin" / "spark-submit-guard"),
        "pool": settings.cq_pool,
        "outlets": [Asset(asset_uri(definition))],
        "execution_timeout": timedelta(seconds=settings.task_timeout_s),
        "retries": settings.cq_attempts - 1,
        "retry_delay": RETRY_DELAY,
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": MAX_RETRY_DELAY,
    }


@functools.cache
def build_form() -> dict[str, Param]:
    """Build and validate the fields of the form, once for all queries."""
    fields = ParamsDict({name: Param(**field) for name, field in FORM_FIELDS.items()})
    fields.validate()
    return {name: fields.get_param(name) for name in FORM_FIELDS}
