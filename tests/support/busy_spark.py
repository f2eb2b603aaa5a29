"""Spark's cores, all occupied, so that queries run until somebody ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.waiting import MAX_WAIT_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def occupied(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Occupy all of Spark's cores, so that no query ends."""
    released, count = folder / "released", spark.sparkContext.defaultParallelism
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run_tasks, spark, dict.fromkeys(range(count), released))
        wait_until(lambda: running_tasks(spark) == count, "all cores to be occupied")
        try:
            yield
        finally:
            released.touch()
            done.result(MAX_WAIT_S)


def run_tasks(spark: SparkSession, awaited: dict[int, Path]) -> None:
    """Run a job with a task for each file, which ends once there is that file."""

    def run(number: int) -> None:
        while not awaited[number].exists():
            time.sleep(0.02)

    spark.sparkContext.parallelize(range(len(awaited)), len(awaited)).foreach(run)


def running_tasks(spark: SparkSession) -> int:
    """Return how many tasks Spark runs."""
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(info.numActiveTasks for info in infos if info is not None)
