"""The app transactions of a Delta table. delta-rs goes through the log for each one it is asked for, which takes milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAX_LOG_ENTRIES: Final = 16
"""Log entries to read to learn what has changed; after more than that, delta-rs is asked again."""


class Transactions:
    """The versions of app transactions at one version of a table, each asked for once.

    They are kept when the table gets a newer version, by any writer: its log entries say what they record.
    """

    def __init__(self, read_entry: Callable[[int], bytes]) -> None:
        """Create an empty cache; `read_entry` returns the log entry of a version, or raises `OSError`."""
        self._read_entry = read_entry
        self._version = -1
        self._recorded: dict[str, int | None] = {}

    def version_of(self, app: str, version: int, open_table: Callable[[], DeltaTable]) -> int | None:
        """Return the version that a version of the table has recorded of an app transaction; None if there is none.

        `open_table` returns the table at that version.
        """
        self._advance(version)
        if app not in self._recorded:
            self._recorded[app] = open_table().transaction_version(app)
        return self._recorded[app]

    def forget(self) -> None:
        """Forget everything: the log is another one."""
        self._recorded.clear()

    def _advance(self, version: int) -> None:
        """Apply what later versions have recorded."""
        if self._recorded and version != self._version:
            try:
                if not self._version < version <= self._version + MAX_LOG_ENTRIES:
                    self.forget()
                for number in range(self._version + 1, version + 1) if self._recorded else ():
                    self._recorded.update(recorded_transactions(self._read_entry(number)))
            except (OSError, ValueError):
                self.forget()
        self._version = version


def recorded_transactions(entry: bytes) -> Iterator[tuple[str, int]]:
    for line in entry.splitlines():
        if b'"appId"' in line and (transaction := json.loads(line).get("txn")) is not None:
            yield transaction["appId"], transaction["version"]
