"""The DAG in place of one that could not be made: it says why, and does nothing."""

from __future__ import annotations

import traceback
from typing import Any

from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

DOC = """
**This DAG could not be made**, and nothing is done for what it stands for. The others are not affected.

```
{text}
```
"""


class BrokenDefinition(BaseOperator):
    """Fails with the reason why its DAG could not be made."""

    ui_color = "#f3c5c5"

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Any) -> None:  # noqa: ARG002
        raise AirflowFailException(self.reason)


def broken_dag(dag_id: str, error: Exception) -> DAG:
    """Make the DAG; it runs only when it is triggered by hand."""
    reason = f"the DAG could not be made: {type(error).__name__}: {error}"
    with DAG(
        dag_id,
        schedule=None,
        tags=["headrace", "broken"],
        description=reason,
        doc_md=DOC.format(text="".join(traceback.format_exception(error)).replace("```", "` ` `")),
        default_args={"owner": "headrace", "retries": 0},
    ) as dag:
        BrokenDefinition(task_id="broken", reason=reason)
    return dag
