"""Operators of Headrace's DAGs. Spark and heavy modules of Headrace are imported only when a task runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from headrace.errors import TerminalError
from headrace.model.spark_options import Role
from headrace.runtime.dag_ids import SPARK_CONNECTION
from headrace.settings import current

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.model.ledger import Chunk


class SparkJob(SparkSubmitOperator):
    """Submits a Spark job of Headrace with the configuration that its driver needs before the JVM starts.

    The `spark-submit` guard ends the JVM and the Python driver when the task ends, even if it is killed.
    """

    ui_color = "#f6e3c5"
    role = Role.TASK

    def execute(self, context: Any) -> None:
        """Submit the job and wait for its end."""
        from headrace.runtime.openlineage.configuration import name_parent
        from headrace.storage.spark.session import launch_conf

        settings = current()
        name_parent(context, settings)
        self.conf = {**launch_conf(settings, self.role), **(self.conf or {})}
        self._hook = self._get_hook()
        check_connection(self._hook._connection, settings.spark_master)
        super().execute(context)


def check_connection(connection: Mapping[str, Any], master: str) -> None:
    """Reject a connection that a driver would not follow, since it gets its settings from the environment of its task.

    Raises:
        AirflowFailException: It names another master than the settings, or the deploy mode `cluster`.
    """
    if connection["deploy_mode"] == "cluster":
        reason = "in the deploy mode cluster, a driver would not get Headrace's settings; remove it"
    elif connection["master"] != master:
        reason = f"its master is {connection['master']}, but HEADRACE_SPARK_MASTER is {master}; set both to the same"
    else:
        return
    raise AirflowFailException(f"the connection {SPARK_CONNECTION} cannot be used: {reason}")


class SnodeDriver(SparkJob):
    """Submits the resident driver of an snode."""

    role = Role.SNODE


class FillChunk(SparkJob):
    """Computes one chunk of a backfill; a failure has the cause that the job recorded in the ledger."""

    option: ClassVar[str] = "--stream"
    """The argument of the Spark job that names the job of the catalog."""

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    @property
    def chunk(self) -> tuple[str, int]:
        """Run and number of the chunk, parsed from the job's arguments."""
        arguments = list(self.application_args or ())
        return str(arguments[arguments.index("--run") + 1]), int(arguments[arguments.index("--chunk") + 1])

    def execute(self, context: Any) -> None:
        """Compute the chunk, under a new run if the task was cleared after it succeeded."""
        from headrace.runtime import airflow_tasks

        run, number = self.chunk
        with open_runtime() as runtime:
            airflow_tasks.resume_cleared_stream(runtime, self.job_id, number)
            run = airflow_tasks.choose_run(runtime, self.job_id, run, number)
        self.application_args = [self.option, self.job_id, "--run", run, "--chunk", str(number)]
        try:
            super().execute(context)
        except AirflowException as error:
            with open_runtime() as runtime:
                raise AirflowException(airflow_tasks.failure_message(runtime, self.job_id, run, number, str(error))) from error


class PlanHistory(BaseOperator):
    """Plans the chunks of a backfill, records them in the ledger, and returns a Spark job's arguments for each.

    The run that Airflow schedules when the stream is created fills the history; a manually triggered run recomputes a range.
    """

    ui_color = "#e3ead9"
    option = "--stream"

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Any) -> list[list[str]]:
        """Record the chunks, and return the arguments of their Spark jobs."""
        with open_runtime() as runtime:
            chunks = self.plan_history(runtime) if is_supervising_run(context) else self.plan_range(runtime, context)
        self.log.info("planned %d chunks of about %d rows in all", len(chunks), sum(chunk.rows for chunk in chunks))
        return [[self.option, self.job_id, "--run", chunk.run, "--chunk", str(chunk.number)] for chunk in chunks]

    def plan_history(self, runtime: Context) -> list[Chunk]:
        """Return the chunks of the history that are not done."""
        from headrace.runtime import airflow_tasks

        return airflow_tasks.plan_history(runtime, self.job_id)

    def plan_range(self, runtime: Context, context: Any) -> list[Chunk]:
        """Return the chunks of the range that the form of a run asks for."""
        from headrace.runtime import airflow_tasks

        timezone = airflow_tasks.source_timezone(runtime, self.job_id)
        event_times = airflow_tasks.BackfillRange.of_form(context["params"], timezone)
        return airflow_tasks.plan_range(runtime, self.job_id, context["run_id"], event_times)


class PlanTransfer(PlanHistory):
    """Plans the chunks of a pipe that tasks transfer: those of a large history, or of a range to transfer again."""

    option = "--pipe"

    def plan_history(self, runtime: Context) -> list[Chunk]:
        """Return the chunks of a large history that are not done."""
        from headrace.runtime import pipe_tasks

        return pipe_tasks.plan_history(runtime, self.job_id)

    def plan_range(self, runtime: Context, context: Any) -> list[Chunk]:
        """Return the chunks of the range that the form of a run asks for."""
        from headrace.runtime import airflow_tasks, pipe_tasks

        event_times = airflow_tasks.BackfillRange.of_form(context["params"], runtime.settings.timezone)
        return pipe_tasks.plan_range(runtime, self.job_id, context["run_id"], event_times)


class TransferChunk(FillChunk):
    """Transfers one chunk of a pipe; a failure has the cause that the job recorded in the ledger."""

    option = "--pipe"


class EndTransfer(BaseOperator):
    """Ends a run that transfers a range again; the scheduled run continues with supervision."""

    ui_color = "#e3ead9"

    def execute(self, context: Any) -> None:
        """Skip the tasks that follow, unless the run supervises the pipe."""
        if not is_supervising_run(context):
            raise AirflowSkipException("transferred a range; the live pipe is unaffected")


class ActivateStream(BaseOperator):
    """Activates a stream once its history is filled, so that its snode runs it. Skipped in a run that recomputes a range."""

    ui_color = "#e3ead9"

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Any) -> None:
        """Activate the stream, unless the run recomputes a range."""
        from headrace.runtime import airflow_tasks

        if not is_supervising_run(context):
            raise AirflowSkipException("recomputed a range; the live stream is unaffected")
        with open_runtime() as runtime:
            airflow_tasks.activate(runtime, self.job_id)


def is_supervising_run(context: Any) -> bool:
    """Return True for the scheduled run, which supervises the stream; manual runs recompute a range."""
    run_type = context["dag_run"].run_type
    return str(getattr(run_type, "value", run_type)) == "scheduled"


@contextmanager
def open_runtime() -> Iterator[Context]:
    """Open the catalog and tables for a task; a terminal error fails the task without retries."""
    from headrace.runtime.context import open_context

    runtime = open_context(current())
    try:
        yield runtime
    except TerminalError as error:
        raise AirflowFailException(str(error)) from error
    finally:
        runtime.catalog.close()


def stop_stream_on_failure(context: Any) -> None:
    """Set the stream to STOPPED with the task's error; a failure callback of the tasks before supervision.

    For a task whose worker was lost, Airflow calls it with the task as it is before it is mapped, which has no chunk.
    """
    from headrace.runtime import airflow_tasks

    if not is_supervising_run(context):
        return
    task = context["task"]
    job_id = task.partial_kwargs["job_id"] if isinstance(task, MappedOperator) else task.job_id
    number = task.chunk[1] if isinstance(task, FillChunk) else None
    with open_runtime() as runtime:
        airflow_tasks.stop_failed_stream(runtime, job_id, str(context.get("exception") or "the task was ended"), number)
