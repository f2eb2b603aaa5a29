"""Refused logins in the audit log: the first ones of a minute, and how many more there were, so that they cannot fill it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.catalog.audit import LOGIN
from headrace.runtime.passwords import prefix_of

if TYPE_CHECKING:
    from headrace.catalog.audit import AuditLog
    from headrace.model.connections import Origin

logger = logging.getLogger(__name__)
MAX_NAME_LENGTH: Final = 100
"""Characters of a user's name that are recorded."""
WINDOW_S: Final = 60.0
MAX_OF_HOST: Final = 5
"""Entries of one host in a window; its others are counted."""
MAX_ENTRIES: Final = 50
"""Entries of all hosts in a window."""
MAX_COUNTED: Final = 50
"""Hosts that are counted each on its own; the others are counted together."""
SEVERAL: Final = "several users"
OTHERS: Final = "other addresses"


class RefusedLogins:
    """Records refused logins of this process. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create it; `clock` returns seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._ends = 0.0
        self._recorded: Counter[str] = Counter()
        self._more: Counter[str] = Counter()

    def record(self, log: AuditLog, user: str, origin: Origin, reason: str) -> None:
        """Record a refused login, or count it; and record what was counted before, if its time is over."""
        host = prefix_of(origin.host)
        with self._lock:
            summary = self._begin_window() if self._clock() >= self._ends else {}
            is_recorded = self._recorded[host] < MAX_OF_HOST and self._recorded.total() < MAX_ENTRIES
            if is_recorded:
                self._recorded[host] += 1
            else:
                self._more[host if host in self._more or len(self._more) < MAX_COUNTED else OTHERS] += 1
        for address, count in summary.items():
            logger.warning("%d more failed logins from %s", count, address or origin.door)
            log.record(SEVERAL, address, LOGIN, "", is_allowed=False, reason=f"{count} more refused logins")
        if is_recorded:
            logger.warning("failed login of user %r from %s", user[:MAX_NAME_LENGTH], origin)
            log.record(user[:MAX_NAME_LENGTH], str(origin), LOGIN, "", is_allowed=False, reason=reason)

    def _begin_window(self) -> Counter[str]:
        """Forget what was recorded, and return how many there were beside, by host."""
        summary, self._more = self._more, Counter()
        self._recorded.clear()
        self._ends = self._clock() + WINDOW_S
        return summary
