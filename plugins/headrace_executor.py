"""The executor of the Airflow that `headrace up` starts."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow.executors import local_executor
from airflow.executors.workloads import ExecuteTask

import airflow
from headrace.airflow.examined_runs import order_examined_runs
from headrace.runtime.airflow_versions import is_supported
from headrace.runtime.dag_ids import SNODE_PREFIX

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from multiprocessing.queues import SimpleQueue

    from airflow.executors.workloads import ExecutorWorkload
    from airflow.models.taskinstancekey import TaskInstanceKey

logger = logging.getLogger(__name__)

FAILED: Final = 1
CLEANING: Final = (sys.executable, "-m", "headrace.runtime.retention")
CLEANING_SECONDS: Final = 3_600.0
"""How often old runs and logs are removed, first this long after the start, when there is much else to do."""


class Worker(NamedTuple):
    """The worker of a driver, with what it shares with this process: that would be removed before the worker has opened it."""

    process: BaseProcess
    shared: tuple[object, ...]


class LocalExecutor(local_executor.LocalExecutor):
    """Runs tasks as that of Airflow does, except for what follows from drivers of snodes, which run until they are stopped.

    Each driver has a worker of its own, and takes none of the `[core] parallelism` workers. Otherwise a few CREATE SNODE would take
    them all, and no other task would run: neither a backfill, nor the report of a stop.

    A scheduler that fails ends at once, so that it can be started again. That of Airflow waits for running tasks, so it would
    neither end nor schedule anything. A new scheduler runs interrupted tasks again once the old one has missed its heartbeats.

    The scheduler examines the runs of drivers first, and none that only waits for a triggerer.

    These three need to know how Airflow works inside, so with a version that was not tested this is the executor of Airflow: set
    `[core] parallelism` to more than there are snodes.

    Every hour, a process removes old runs and logs. The scheduler starts it, since tasks may not use Airflow's database.
    """

    _cleaning: subprocess.Popen[bytes] | None = None
    _clean_at = 0.0

    def start(self) -> None:
        """Start without workers."""
        super().start()
        self.drivers: dict[TaskInstanceKey, Worker] = {}
        self.is_tested = is_supported(airflow.__version__)
        if self.is_tested:
            order_examined_runs()
        else:
            logger.warning("Airflow %s was not tested: drivers of snodes take slots of [core] parallelism", airflow.__version__)

    def _process_workloads(self, workload_list: Sequence[ExecutorWorkload]) -> None:
        others: list[ExecutorWorkload] = []
        for workload in workload_list:
            if self.is_tested and isinstance(workload, ExecuteTask) and workload.ti.dag_id.startswith(SNODE_PREFIX):
                self.queued_tasks.pop(workload.key)
                self._start_driver(workload)
            else:
                others.append(workload)
        super()._process_workloads(others)  # type: ignore[no-untyped-call]

    def _start_driver(self, workload: ExecuteTask) -> None:
        """Start a worker that runs one workload and ends."""
        queue: SimpleQueue[ExecuteTask | None] = multiprocessing.SimpleQueue()
        queue.put(workload)
        queue.put(None)
        unread = multiprocessing.Value(ctypes.c_uint, 1)
        arguments = {
            "logger_name": self.log.name,
            "input": queue,
            "output": self.result_queue,
            "unread_messages": unread,
            "team_conf": self.conf,
        }
        process = multiprocessing.Process(target=local_executor._run_worker, kwargs=arguments)
        process.start()
        self.drivers[workload.key] = Worker(process, (queue, unread))

    def sync(self) -> None:
        """Read the results of tasks. A driver whose worker was killed has failed; for other tasks, Airflow waits for heartbeats."""
        super().sync()
        for key, worker in list(self.drivers.items()):
            if not worker.process.is_alive():
                del self.drivers[key]
                if worker.process.exitcode:
                    self.fail(key)
        self._clean_if_due()

    def _clean_if_due(self) -> None:
        is_running = self._cleaning is not None and self._cleaning.poll() is None
        now = time.monotonic()
        if now < self._clean_at or is_running:
            return
        if self._clean_at:
            self._cleaning = subprocess.Popen(CLEANING)
        self._clean_at = now + CLEANING_SECONDS

    def end(self) -> None:
        """End the workers: wait for their tasks, unless the scheduler fails."""
        failure = sys.exc_info()[1]
        if not self.is_tested or failure is None or isinstance(failure, SystemExit | KeyboardInterrupt):
            for worker in self.drivers.values():
                worker.process.join()
            super().end()
            return
        for _ in self.workers:
            self.activity_queue.put(None)
        logger.error("The scheduler ends without waiting for its tasks, since it failed: %r", failure)
        logging.shutdown()
        os._exit(FAILED)
