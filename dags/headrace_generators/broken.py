"""Placeholder for a DAG that could not be built; it shows the reason."""

from __future__ import annotations

import traceback
from typing import Any

from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

DOC_TEMPLATE = """
**This DAG could not be built**, so its stream or snode does not run. Other DAGs are not affected.

```
{text}
```
"""


class BrokenDefinition(BaseOperator):
    """Fails with the reason why its DAG could not be built."""

    ui_color = "#f3c5c5"

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def execute(self, context: Any) -> None:  # noqa: ARG002
        """Fail with the reason, without retries."""
        raise AirflowFailException(self.reason)


def broken_dag(dag_id: str, error: Exception) -> DAG:
    """Build the placeholder of a DAG; it only runs if it is triggered manually."""
    reason = f"the DAG could not be built: {type(error).__name__}: {error}"
    with DAG(
        dag_id,
        schedule=None,
        tags=["headrace", "broken"],
        description=reason,
        doc_md=DOC_TEMPLATE.format(text="".join(traceback.format_exception(error)).replace("```", "` ` `")),
        default_args={"owner": "headrace", "retries": 0},
    ) as dag:
        BrokenDefinition(task_id="broken", reason=reason)
    return dag
