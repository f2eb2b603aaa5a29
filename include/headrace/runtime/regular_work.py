"""Work that a process of an snode repeats in a thread of its own, whatever fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.errors import Error

logger = logging.getLogger(__name__)


class RegularWork:
    """Calls a function regularly, first at once. An error is logged and ends that call only."""

    def __init__(self, name: str, interval_s: float, work: Callable[[], None]) -> None:
        """Create it; `name` says in the log what failed."""
        self._name, self._interval_s, self._work = name, interval_s, work
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin, with the first call at once."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def stop(self) -> None:
        """Begin no further call."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._work()
            except Error as error:
                logger.warning("%s: %s", self._name, error.message)
            except Exception:
                logger.exception("%s failed", self._name)
            self._stopped.wait(self._interval_s)
