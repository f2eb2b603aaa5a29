"""An snode and a backfill on a standalone Spark cluster, of which a worker dies in the middle of their work."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest

from headrace.context import Context
from headrace.history import backfill
from headrace.model.ledger import ChunkState
from tests.cluster.conftest import Driver
from tests.cluster.spark_cluster import SparkCluster, Worker
from tests.runtime.meters import START, Meters, readings
from tests.streams.effort import drawn
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.airflow, pytest.mark.e2e]

READ_STOPS = "storage.share.read:1:stop"
WIDE = {"HEADRACE_KERNELS": "always", "HEADRACE_DRIVER_ROWS": "0", "HEADRACE_BATCH_ROWS": "1", "HEADRACE_WIDE_COMMIT_ROWS": "0"}
"""Settings with which tasks compute all commits of new rows."""


def snode_task(context: Context, name: str = "default") -> Any:
    from headrace_generators.snode import snode_dag

    return snode_dag(name, context.settings).get_task("driver")


def chunk_task(context: Context, stream: str, number: int) -> Any:
    from headrace_generators.stream import stream_dag

    dag = stream_dag(context.catalog.jobs.by_id(stream).definition, context.settings)
    task = dag.get_task("fill_history").unmap({"application_args": []})
    task.application_args = ["--stream", stream, "--run", backfill.HISTORY, "--chunk", str(number)]
    return task


def reading(cluster: SparkCluster) -> Worker | None:
    """Return a worker of which a task has stopped itself as it began to read."""
    return next((worker for worker in cluster.workers if worker.stopped_tasks()), None)


def resume_tasks(workers: list[Worker]) -> None:
    """Continue the Python workers that have stopped themselves."""
    for worker in workers:
        for task in worker.stopped_tasks():
            with suppress(psutil.NoSuchProcess):
                task.send_signal(signal.SIGCONT)


def test_a_micro_batch_survives_the_death_of_a_worker(
    context: Context, cluster: SparkCluster, submit: Callable[..., Driver]
) -> None:
    """Tasks compute the windows of a commit and stage results; those of the dead worker run again."""
    meters = Meters.create(context)
    meters.create_stream("TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0")
    options = f"{context.settings.spark_options} spark.executorEnv.HEADRACE_FAILPOINTS={READ_STOPS}"
    driver = submit(snode_task(context), **WIDE, HEADRACE_SPARK_OPTIONS=options)
    meters.write(readings(3_000))
    doomed = wait_until(lambda: reading(cluster), "a task to read its share", details=lambda: driver.text() + cluster.logs())
    assert meters.results() == []
    doomed.kill()

    def has_results() -> bool:
        resume_tasks([worker for worker in cluster.workers if worker is not doomed])
        return meters.results() == meters.expected()

    wait_until(has_results, "the other worker to compute the micro-batch", details=driver.text)
    assert driver.process.poll() is None


@pytest.mark.parametrize("settings", drawn(["folder", "object store"], "tables of a cluster"), indirect=True)
def test_a_chunk_survives_the_death_of_a_worker(context: Context, cluster: SparkCluster, submit: Callable[..., Driver]) -> None:
    """Tasks read the files themselves, so that Python's packages and the tables must be found on the workers."""
    meters = Meters.create(context)
    meters.write(readings(3_000))
    meters.write(readings(3_000, seed=1, start=START + 30_000_000))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    chunks = backfill.plan_chunks(context, stream)
    options = f"{context.settings.spark_options} spark.executorEnv.HEADRACE_FAILPOINTS={READ_STOPS}"
    driver = submit(chunk_task(context, stream, chunks[0].number), HEADRACE_KERNELS="always", HEADRACE_SPARK_OPTIONS=options)

    doomed = wait_until(lambda: reading(cluster), "a task to read its share", details=lambda: driver.text() + cluster.logs())
    assert meters.results() == []
    doomed.kill()

    def has_ended() -> bool:
        resume_tasks([worker for worker in cluster.workers if worker is not doomed])
        return driver.process.poll() is not None

    wait_until(has_ended, "the chunk's driver to end", details=driver.text)
    assert driver.process.returncode == 0, driver.text()
    assert [chunk.state for chunk in context.catalog.ledger.chunks(stream)] == [ChunkState.DONE] * len(chunks)
    assert meters.results() == meters.expected()
