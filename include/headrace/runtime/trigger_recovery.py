"""Completion of triggers that a process which died has left half created, dropped or taken over: by an snode, every minute."""

from __future__ import annotations

import logging
import threading
from typing import Final

from headrace.context import Context
from headrace.errors import Error
from headrace.trees.trigger_drops import complete_interrupted

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0


class TriggerRecovery:
    """Completes interrupted statements of triggers in a thread of its own, since `on_drop` may take long."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin, with the first pass at once."""
        threading.Thread(target=self._run, name="trigger-recovery", daemon=True).start()

    def stop(self) -> None:
        """Begin no further pass."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                complete_interrupted(self._context)
            except Error as error:
                logger.warning("not completing interrupted statements of triggers: %s", error.message)
            except Exception:
                logger.exception("completing interrupted statements of triggers failed")
            self._stopped.wait(INTERVAL_S)
