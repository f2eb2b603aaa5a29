"""The executor of the Airflow that `headrace up` starts."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from airflow.executors import local_executor

logger = logging.getLogger(__name__)

FAILED: Final = 1


class LocalExecutor(local_executor.LocalExecutor):
    """Runs tasks as that of Airflow does, and lets a scheduler that fails end at once, so that it can be started again.

    That of Airflow waits for running tasks even if the scheduler fails. The task of an snode's driver runs until it is stopped, so
    such a scheduler would neither end nor schedule anything. A new scheduler runs interrupted tasks again once the old one has
    missed its heartbeats.
    """

    def end(self) -> None:
        """End the workers: wait for their tasks, unless the scheduler fails."""
        failure = sys.exc_info()[1]
        if failure is None or isinstance(failure, SystemExit | KeyboardInterrupt):
            super().end()
            return
        for _ in self.workers:
            self.activity_queue.put(None)
        logger.error("The scheduler ends without waiting for its tasks, since it failed: %r", failure)
        logging.shutdown()
        os._exit(FAILED)
