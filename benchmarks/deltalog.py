"""The log of a Delta table as a watcher sees it: which commit is new, and when it was made. Both sides are timed by it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# Looking seldom costs the watched little; the time of a commit is read from its file.
LOOK_SECONDS: Final = 0.005

Actions = list[dict[str, Any]]


class NoCommitError(AssertionError):
    """The commit that was waited for did not come."""


class Log:
    """Reads on from the commits seen so far."""

    def __init__(self, location: str) -> None:
        self._folder = Path(location) / "_delta_log"
        self._next = 0
        self.skip()

    def skip(self) -> None:
        """Take all commits there are as seen."""
        while self._file().exists():
            self._next += 1

    def wait(self, wanted: Callable[[Actions], bool], seconds: float) -> float:
        """When the next commit was made that is wanted (epoch seconds); those before it are passed over.

        Raises:
            NoCommitError: none came in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            file = self._file()
            if not file.exists():
                time.sleep(LOOK_SECONDS)
                continue
            self._next += 1
            if wanted([json.loads(line) for line in file.read_text().splitlines() if line]):
                return made(file)
        raise NoCommitError(f"no result in {self._folder} within {seconds:.0f} s")

    def _file(self) -> Path:
        return self._folder / f"{self._next:020}.json"


def commit_time(location: str, version: int) -> float:
    """When a version was committed, in epoch seconds."""
    return made(Path(location) / "_delta_log" / f"{version:020}.json")


def made(file: Path) -> float:
    return file.stat().st_mtime_ns / 1e9


def has_rows(actions: Actions) -> bool:
    """Whether a commit added rows."""
    return any(json.loads(each["add"].get("stats") or "{}").get("numRecords", 0) > 0 for each in actions if "add" in each)


def reaches(app: str, version: int) -> Callable[[Actions], bool]:
    """Whether a commit records an application's transaction of that version or a later one."""

    def found(actions: Actions) -> bool:
        return any(each["txn"]["appId"] == app and each["txn"]["version"] >= version for each in actions if "txn" in each)

    return found
