"""What DAGs have in common that compute or transfer chunks: the task to map over them, and the form of a manual run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from headrace.model.jobs import JobDefinition
from headrace.runtime.dag_ids import SPARK_CONNECTION, definition_dag_id
from headrace.settings import Settings
from headrace_generators.job_options import job_options
from headrace_operators import FillChunk, stop_stream_on_failure
from headrace_timetable import OncePerJob


def build_chunk_task(operator: type[FillChunk], task_id: str, settings: Settings, job_id: str) -> Any:
    """Build the Spark task to map over the chunks, which runs the script of its name; the pool limits how many run at a time."""
    return operator.partial(
        task_id=task_id,
        conn_id=SPARK_CONNECTION,
        application=str(settings.project / "spark_jobs" / f"{task_id}.py"),
        name=f"headrace-{task_id.replace('_', '-')}",
        spark_binary=str(settings.project / "bin" / "spark-submit-guard"),
        pool=settings.backfill_pool,
        max_active_tis_per_dag=settings.backfill_slots,
        execution_timeout=timedelta(seconds=settings.task_timeout_s),
        map_index_template="chunk {{ task.application_args[-1] }}",
        retry_exponential_backoff=2.0,
        on_failure_callback=stop_stream_on_failure,
        job_id=job_id,
    )


def supervising_dag(definition: JobDefinition, settings: Settings, kind: str, **options: Any) -> DAG:
    """Return the empty DAG of a job that it supervises, once, and whose ranges manual runs compute or transfer again."""
    return DAG(
        definition_dag_id(definition),
        schedule=OncePerJob(definition.created),
        catchup=False,
        # The scheduled run, and two manual runs.
        max_active_runs=3,
        is_paused_upon_creation=False,
        **job_options(definition, settings, kind, retries=2, retry_delay=timedelta(seconds=5)),
        **options,
    )


def build_form(fields: dict[str, dict[str, Any]]) -> dict[str, Param]:
    """Build and validate the fields of a form. They are added to DAGs afterwards: the constructor would validate them for each."""
    built = ParamsDict({name: Param(**field) for name, field in fields.items()})
    built.validate()
    return {name: built.get_param(name) for name in fields}
