"""What happens when a receiver does not take what is sent: how long it is tried again, and whether conflicts are ignored."""

from __future__ import annotations

import logging
import time
from typing import Final

from headrace.errors import Error, IntegrityError, TransientError
from headrace.pipes.iotdb.statuses import IDEMPOTENT_CONFLICT, USER_CONFLICT, Answer, status_error, status_text

log: Final = logging.getLogger(__name__)
TYPE_MISMATCH: Final = "registered type"
"""The words by which IoTDB says that a value has another type than its series."""


class FailurePolicy:
    """Decides which errors may pass, by how long they have lasted for a pipe."""

    def __init__(
        self, ignores_conflicts: bool, conflict_seconds: int, other_seconds: int, rejected_since: dict[str, float] | None = None
    ) -> None:
        """Take the options, and since when deliveries of pipes are rejected, which outlives the sink."""
        self._ignores_conflicts = ignores_conflicts
        self._conflict_seconds = conflict_seconds
        self._other_seconds = other_seconds
        self._rejected_since = {} if rejected_since is None else rejected_since

    def reset(self, pipe_id: str) -> None:
        """Take note that a delivery of a pipe has succeeded."""
        self._rejected_since.pop(pipe_id, None)

    def handle(self, pipe_id: str, node: object, action: str, status: Answer) -> None:
        """Raise the error of a status that is no success, unless it may be ignored.

        Raises:
            TransientError: Another try may help, and has not been in vain for too long.
            TerminalError: It does not help, or has been in vain for too long.
        """
        is_mismatch = TYPE_MISMATCH in (status.message or "").lower()
        if status.code == IDEMPOTENT_CONFLICT and not is_mismatch:
            return
        is_conflict = status.code == USER_CONFLICT or is_mismatch
        if is_conflict and self._ignores_conflicts:
            log.warning("IoTDB at %s failed to %s; ignored as a conflict: %s", node, action, status_text(status))
            return
        seconds = self._conflict_seconds if is_conflict else self._other_seconds
        raise self._bounded(pipe_id, status_error(node, action, status), seconds)

    def _bounded(self, pipe_id: str, error: Error, seconds: int) -> Error:
        """Return a transient error, or a terminal one if it has lasted too long."""
        now = time.monotonic()
        since = self._rejected_since.setdefault(pipe_id, now)
        if not isinstance(error, TransientError) or seconds < 0 or now - since < seconds:
            return error
        self.reset(pipe_id)  # the time begins again when a user starts the pipe
        return IntegrityError(
            f"{error.message}, for more than {seconds} s",
            hint="remove the cause at the receiver and start the pipe, or raise the sink's retry-max-time-seconds",
        )
