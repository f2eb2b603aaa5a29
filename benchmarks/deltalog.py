"""Reads commits and their times from a Delta table's log. Both sides are timed by it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# Polling does not limit accuracy: the time of a commit is that of its file.
POLL_SECONDS: Final = 0.005

Actions = list[dict[str, Any]]


class NoCommitError(AssertionError):
    """The expected commit was not made in time."""


class DeltaLogReader:
    """Reads the commits of a Delta table in order, each once."""

    def __init__(self, location: str) -> None:
        self._folder = Path(location) / "_delta_log"
        self._next = 0
        self.skip()

    def skip(self) -> None:
        """Skip all existing commits."""
        while self._file().exists():
            self._next += 1

    def wait(self, is_expected: Callable[[Actions], bool], seconds: float) -> float:
        """Wait for the next expected commit, skipping others, and return its time in epoch seconds.

        Raises:
            NoCommitError: There was none within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            file = self._file()
            if not file.exists():
                time.sleep(POLL_SECONDS)
                continue
            self._next += 1
            if is_expected([json.loads(line) for line in file.read_text().splitlines() if line]):
                return file_time(file)
        raise NoCommitError(f"no expected commit in {self._folder} within {seconds:.0f} s")

    def _file(self) -> Path:
        return self._folder / f"{self._next:020}.json"


def read_entries(location: str) -> dict[int, Actions]:
    """Return the actions of all versions of a table in its log, in order."""
    files = sorted((Path(location) / "_delta_log").glob("*.json"))
    return {int(file.stem): [json.loads(line) for line in file.read_text().splitlines() if line] for file in files}


def adds_rows(actions: Actions) -> bool:
    """Return whether a commit added rows, and not only compacted them."""
    return has_rows([action for action in actions if action.get("add", {}).get("dataChange", True)])


def commit_time(location: str, version: int) -> float:
    """Return when a version was committed, in epoch seconds."""
    return file_time(Path(location) / "_delta_log" / f"{version:020}.json")


def file_time(file: Path) -> float:
    """Return when a file was modified, in epoch seconds."""
    return file.stat().st_mtime_ns / 1e9


def has_rows(actions: Actions) -> bool:
    """Return True if a commit added rows."""
    return any(json.loads(action["add"].get("stats") or "{}").get("numRecords", 0) > 0 for action in actions if "add" in action)


def has_transaction(app: str, version: int) -> Callable[[Actions], bool]:
    """Return a predicate of commits that record an app transaction of at least `version`."""

    def is_recorded(actions: Actions) -> bool:
        transactions = [action["txn"] for action in actions if "txn" in action]
        return any(transaction["appId"] == app and transaction["version"] >= version for transaction in transactions)

    return is_recorded
