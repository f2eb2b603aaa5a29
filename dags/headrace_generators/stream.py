"""The DAG of a stream: the backfill of its history in chunks, then supervision until the stream is dropped."""

from __future__ import annotations

import functools
from typing import Any, Final

from airflow.sdk import DAG, Asset, Param

from headrace.model.jobs import JobDefinition
from headrace.model.masking import masked
from headrace.runtime.dag_ids import asset_uri
from headrace.settings import Settings
from headrace_generators import chunks
from headrace_operators import ActivateStream, FillChunk, PlanHistory, stop_stream_on_failure
from headrace_supervision import SuperviseJob

# Form of a manually triggered run, which recomputes a range. All streams have the same form.
FORM_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "from": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "From",
        "description_md": "Only windows that start at or after this event time. Default: from the first row.",
    },
    "to": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "To",
        "description_md": "Only windows that start before this event time. Default: all closed windows.",
    },
    "chunk_rows": {
        "default": None,
        "type": ["null", "integer"],
        "minimum": 1,
        "title": "Rows per chunk",
        "description_md": "Approximate number of source rows per Spark job. Default: the setting `chunk_rows`.",
    },
    "chunk_minutes": {
        "default": None,
        "type": ["null", "integer"],
        "minimum": 1,
        "title": "Minutes per chunk",
        "description_md": "Length of each chunk in event time, instead of a number of rows.",
    },
}

DOC_TEMPLATE = """
Stream `{database}.{name}` reads `{source}` and writes `{target}`.

```sql
{sql}
```

* **The scheduled run** backfills the history (`FILL_HISTORY 1`), activates the stream on its snode, and supervises it.
  `supervise` fails when the stream is STOPPED, with the reason that `SHOW STREAMS` shows. Transient errors are retried
  automatically. After any other error, fix the cause, then clear the task or run `RESUME STREAM`.
* **Asset** `{asset}` gets an event when the history is filled, and then for the windows that close, if a DAG is scheduled on it.
* **Trigger** this DAG to recompute a range of event time in chunks while the stream runs.
* Ending a task here does not stop the stream. Use `PAUSE STREAM` or `DROP STREAM`.
"""


def stream_dag(definition: JobDefinition, settings: Settings) -> DAG:
    """Build the DAG from the definition alone, so that Airflow records a new version only if the stream changes."""
    with chunks.supervising_dag(
        definition,
        settings,
        "stream",
        description=f"Backfills and supervises the stream {definition.database}.{definition.name}",
        doc_md=format_doc(definition),
    ) as dag:
        stream: dict[str, Any] = {"job_id": definition.id}
        plan = PlanHistory(task_id="plan_history", on_failure_callback=stop_stream_on_failure, **stream)
        fill = chunks.build_chunk_task(FillChunk, "fill_history", settings, definition.id).expand(application_args=plan.output)
        activate = ActivateStream(
            task_id="activate",
            trigger_rule="none_failed",
            on_failure_callback=stop_stream_on_failure,
            outlets=[Asset(asset_uri(definition))],
            **stream,
        )
        fill >> activate >> SuperviseJob(task_id="supervise", **stream)
    # Passed to the constructor, the fields would be validated for each DAG and copied into its tasks, which doubles the time to
    # build a DAG.
    dag.params.update(build_form())
    return dag


@functools.cache
def build_form() -> dict[str, Param]:
    """Build the fields of the form, once for all streams."""
    return chunks.build_form(FORM_FIELDS)


def format_doc(definition: JobDefinition) -> str:
    """Return the documentation on the DAG's page."""
    return DOC_TEMPLATE.format(
        database=definition.database,
        name=definition.name,
        source=definition.source,
        target=definition.target,
        asset=asset_uri(definition),
        sql=masked(definition.sql).strip().replace("```", "` ` `"),
    )
