"""Waits for events with a generous time limit, and a record of the waits that came near it.

No test asserts a duration. The limit only decides when a test gives up, so it must far exceed what a slow machine needs. The end of
a run lists all waits and tests that took more than `NEAR` of their limit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

T = TypeVar("T")

MAX_WAIT_S: Final = float(os.environ.get("HEADRACE_TEST_MAX_WAIT_S", "600"))
NEAR: Final = 0.4
REPORT_VARIABLE: Final = "HEADRACE_TEST_WAITS"
"""File to which each test process appends its waits near the limit as JSON lines; `bin/run-tests` prints them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait: what for, its duration and its time limit in seconds."""

    what: str
    seconds: float
    bound: float

    @property
    def is_near(self) -> bool:
        return self.seconds > NEAR * self.bound

    def __str__(self) -> str:
        return f"{self.seconds:.0f} of {self.bound:.0f} s: {self.what}"


near_waits: list[Wait] = []


def note(wait: Wait) -> None:
    """Record a wait if it came near its limit."""
    if wait.is_near:
        near_waits.append(wait)


def wait_until(
    poll: Callable[[], T | Literal[False] | None],
    what: str,
    *,
    details: Callable[[], str] = str,
    bound_s: float = MAX_WAIT_S,
    pause_s: float = 0.1,
) -> T:
    """Call `poll` until its result is true, and return the result.

    Args:
        poll: Called again and again.
        what: Description for the error, as in "waited 600 s for {what}".
        details: Returns text to add to the error, such as logs.
        bound_s: Time limit in seconds.
        pause_s: Seconds between two calls.

    Raises:
        TimeoutError: The result was not true within the limit.
    """
    start = time.monotonic()
    while not (result := poll()):
        if time.monotonic() - start > bound_s:
            raise TimeoutError(f"waited {bound_s:.0f} s for {what}\n{details()}".rstrip())
        time.sleep(pause_s)
    note(Wait(what, time.monotonic() - start, bound_s))
    return result


def append_report() -> None:
    """Append the waits of this process to the report of the test run, if there is one."""
    path = os.environ.get(REPORT_VARIABLE)
    if path and near_waits:
        with Path(path).open("a") as file:
            file.writelines(json.dumps(asdict(wait)) + "\n" for wait in near_waits)
