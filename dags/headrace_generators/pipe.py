"""The DAG of a pipe: the transfer of a large history in chunks, then the supervision of what its snode runs."""

from __future__ import annotations

import functools
from typing import Any, Final

from airflow.sdk import DAG, Asset, Param

from headrace.model.jobs import JobDefinition
from headrace.model.masking import masked
from headrace.runtime.dag_ids import asset_uri
from headrace.settings import Settings
from headrace_generators import chunks
from headrace_operators import EndTransfer, PlanTransfer, TransferChunk, stop_stream_on_failure
from headrace_supervision import SuperviseJob

DOC_TEMPLATE: Final = """
Pipe `{name}` moves data by the statement

```sql
{sql}
```

* **The scheduled run** transfers a large history in chunks, and supervises the pipe: `supervise` fails when the pipe is STOPPED by
  an error, with the reason that `SHOW PIPES` shows. Transient errors are retried automatically. After any other error, fix the
  cause, then clear the task or run `START PIPE`.
* It succeeds when the pipe is dropped. A pipe with `mode=snapshot` or `mode=query` drops itself once its history is transferred.
* **Trigger** this DAG to transfer a range of time again, if the pipe has no processor and its receiver may get rows twice.
* Ending a task here does not stop the pipe. Use `STOP PIPE` or `DROP PIPE`.
"""


FORM_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "from": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "From",
        "description_md": "Only rows at or after this time. Default: from the first row.",
    },
    "to": {
        "default": None,
        "type": ["null", "string"],
        "format": "date-time",
        "title": "To",
        "description_md": "Only rows before this time. Default: to the last row.",
    },
}
"""Form of a manually triggered run, which transfers a range again."""


@functools.cache
def build_form() -> dict[str, Param]:
    """Build the fields of the form, once for all pipes."""
    return chunks.build_form(FORM_FIELDS)


def pipe_dag(definition: JobDefinition, settings: Settings) -> DAG:
    """Build the DAG from the definition alone, so that Airflow records a new version only if the pipe changes."""
    with chunks.supervising_dag(
        definition,
        settings,
        "pipe",
        description=f"Supervises the pipe {definition.name}",
        doc_md=DOC_TEMPLATE.format(name=definition.name, sql=masked(definition.sql).replace("```", "` ` `")),
    ) as dag:
        plan = PlanTransfer(task_id="plan_history", job_id=definition.id, on_failure_callback=stop_stream_on_failure)
        transfer = chunks.build_chunk_task(TransferChunk, "transfer_history", settings, definition.id).expand(
            application_args=plan.output
        )
        end = EndTransfer(task_id="end_transfer", trigger_rule="none_failed", outlets=[Asset(asset_uri(definition))])
        transfer >> end >> SuperviseJob(task_id="supervise", job_id=definition.id)
    # Passed to the constructor, the fields would be validated for each DAG.
    dag.params.update(build_form())
    return dag
