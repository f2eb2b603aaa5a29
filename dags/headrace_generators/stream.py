"""The DAG of a stream: its history in chunks, then supervision for as long as it lives."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from headrace.model.jobs import JobDefinition
from headrace.runtime.dag_ids import SPARK_CONNECTION, stream_dag_id, tag_of
from headrace.settings import Settings
from headrace_operators import ActivateStream, FillChunk, PlanHistory, history_failed
from headrace_supervision import SuperviseJob
from headrace_timetable import OncePerStream

# The form of a run that is triggered by a person: what to compute again. It is the same for every stream.
FORM: Final[dict[str, dict[str, Any]]] = {
    "from": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "From",
        "description_md": "Windows that start at or after this event time. Empty: from the first row on.",
    },
    "to": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "To",
        "description_md": "Windows that start before this event time. Empty: up to the windows that are still open.",
    },
    "chunk_rows": {
        "default": None,
        "type": ["null", "integer"],
        "minimum": 1,
        "title": "Rows a chunk",
        "description_md": "About how many rows of the source one Spark job computes. Empty: the setting `chunk_rows`.",
    },
    "chunk_minutes": {
        "default": None,
        "type": ["null", "integer"],
        "minimum": 1,
        "title": "Minutes a chunk",
        "description_md": "Chunks of this length of event time, instead of by rows.",
    },
}

DOC = """
`{database}.{name}` reads `{source}` and fills `{target}`.

```sql
{sql}
```

* **The scheduled run** fills the history (`FILL_HISTORY 1`), hands the stream to its snode, and supervises it. `supervise` fails
  when the stream is STOPPED, for the reason that `SHOW STREAMS` gives. What passes by itself is tried again by itself; after
  anything else mend the cause, then clear the task or say `RESUME STREAM`.
* **Trigger** this DAG to compute a range of event time again, in chunks, beside the live stream.
* Ending a task here does not end the stream: `PAUSE STREAM` and `DROP STREAM` do.
"""


def stream_dag(definition: JobDefinition, settings: Settings) -> DAG:
    """The DAG; its text is made from the definition alone, so that it changes with the stream and with nothing else."""
    with DAG(
        stream_dag_id(definition.database, definition.name),
        schedule=OncePerStream(definition.created),
        catchup=False,
        # The run that supervises, and two ranges at a time.
        max_active_runs=3,
        is_paused_upon_creation=False,
        tags=["headrace", "stream", tag_of(definition.database)],
        description=f"Backfills and supervises the stream {definition.database}.{definition.name}",
        doc_md=doc(definition),
        default_args={"owner": "headrace", "retries": 2, "retry_delay": timedelta(seconds=5)},
    ) as dag:
        stream: dict[str, Any] = {"job_id": definition.id}
        plan = PlanHistory(task_id="plan_history", on_failure_callback=history_failed, **stream)
        fill = fill_history(settings, stream).expand(application_args=plan.output)
        activate = ActivateStream(task_id="activate", trigger_rule="none_failed", on_failure_callback=history_failed, **stream)
        fill >> activate >> SuperviseJob(task_id="supervise", **stream)
    # Given to a DAG when it is made, fields are checked against their schemas each time and copied into each of its tasks:
    # half of the time that it takes to make a DAG.
    dag.params.update(form())
    return dag


@functools.cache
def form() -> dict[str, Param]:
    """The fields of the form, one set for all streams."""
    fields = ParamsDict({name: Param(**field) for name, field in FORM.items()})
    fields.validate()
    return {name: fields.get_param(name) for name in FORM}


def fill_history(settings: Settings, stream: dict[str, Any]) -> Any:
    """The Spark job of a chunk, to be mapped over the chunks; so many at a time as there are slots, over all streams."""
    return FillChunk.partial(
        task_id="fill_history",
        conn_id=SPARK_CONNECTION,
        application=str(settings.project / "spark_jobs" / "fill_history.py"),
        name="headrace-fill-history",
        spark_binary=str(settings.project / "bin" / "spark-submit-guard"),
        pool=settings.backfill_pool,
        max_active_tis_per_dag=settings.backfill_slots,
        map_index_template="chunk {{ task.application_args[-1] }}",
        retry_exponential_backoff=2.0,
        on_failure_callback=history_failed,
        **stream,
    )


def doc(definition: JobDefinition) -> str:
    """What the DAG's page says of the stream."""
    return DOC.format(
        database=definition.database,
        name=definition.name,
        source=definition.source,
        target=definition.target,
        sql=definition.sql.strip().replace("```", "` ` `"),
    )
