"""The tasks of Headrace's DAGs. Nothing of Spark, and nothing of Headrace that is heavy, is imported before a task runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from headrace.errors import TerminalError
from headrace.settings import current

if TYPE_CHECKING:
    from headrace.runtime.context import Context


class SparkJob(SparkSubmitOperator):
    """`spark-submit` of one of Headrace's jobs, with the configuration that a driver needs before its JVM starts.

    The guard ends the JVM and the Python driver with the task, however the task ends.
    """

    ui_color = "#f6e3c5"

    def execute(self, context: Any) -> None:
        from headrace.storage.spark.session import launch_conf

        self.conf = {**launch_conf(current()), **(self.conf or {})}
        super().execute(context)


class FillChunk(SparkJob):
    """Computes one chunk. A failure says what the job has recorded of it; the last one stops the stream for that reason."""

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    @property
    def chunk(self) -> tuple[str, int]:
        """Run and number of the chunk, from the job's arguments."""
        arguments = list(self.application_args or ())
        return str(arguments[arguments.index("--run") + 1]), int(arguments[arguments.index("--chunk") + 1])

    def execute(self, context: Any) -> None:
        from headrace.runtime import airflow_tasks

        run, number = self.chunk
        with runtime() as opened:
            airflow_tasks.go_on(opened, self.job_id, number)
            run = airflow_tasks.run_to_fill(opened, self.job_id, run, number)
        self.application_args = ["--stream", self.job_id, "--run", run, "--chunk", str(number)]
        try:
            super().execute(context)
        except AirflowException as error:
            with runtime() as opened:
                raise AirflowException(airflow_tasks.cause(opened, self.job_id, run, number, str(error))) from error


class PlanHistory(BaseOperator):
    """Cuts what is to be computed into chunks and records them; returns the arguments of a Spark job for each.

    The run that Airflow makes when the stream is created fills its history; a run triggered by a person recomputes a range.
    """

    ui_color = "#e3ead9"

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Any) -> list[list[str]]:
        from headrace.runtime import airflow_tasks

        with runtime() as opened:
            if supervises(context):
                chunks = airflow_tasks.plan_history(opened, self.job_id)
            else:
                wanted = airflow_tasks.Range.of_form(context["params"], airflow_tasks.zone_of(opened, self.job_id))
                chunks = airflow_tasks.plan_range(opened, self.job_id, context["run_id"], wanted)
        self.log.info("%d chunks, about %d rows", len(chunks), sum(chunk.rows for chunk in chunks))
        return [["--stream", self.job_id, "--run", chunk.run, "--chunk", str(chunk.number)] for chunk in chunks]


class ActivateStream(BaseOperator):
    """Hands a stream whose history is filled to its snode. Skipped after the recomputation of a range: the stream is live."""

    ui_color = "#e3ead9"

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Any) -> None:
        from headrace.runtime import airflow_tasks

        if not supervises(context):
            raise AirflowSkipException("a range was recomputed; the live stream goes on undisturbed")
        with runtime() as opened:
            airflow_tasks.activate(opened, self.job_id)


def supervises(context: Any) -> bool:
    """Whether a run is the stream's own, not the recomputation of a range."""
    run_type = context["dag_run"].run_type
    return str(getattr(run_type, "value", run_type)) == "scheduled"


@contextmanager
def runtime() -> Iterator[Context]:
    """Catalog and tables for a task. What trying again would not change fails the task at once."""
    from headrace.runtime.context import open_context

    opened = open_context(current())
    try:
        yield opened
    except TerminalError as error:
        raise AirflowFailException(str(error)) from error
    finally:
        opened.catalog.close()


def history_failed(context: Any) -> None:
    """Callback of the tasks before supervision: the stream is STOPPED, for the reason that the task gives."""
    from headrace.runtime import airflow_tasks

    if not supervises(context):
        return
    task = context["task"]
    number = task.chunk[1] if isinstance(task, FillChunk) else None
    with runtime() as opened:
        airflow_tasks.failed(opened, task.job_id, str(context.get("exception") or "the task was ended"), number)
