"""Waiting for events, with one generous bound, and a record of the waits that came near it.

No test asserts how long something takes. A bound only decides when a test gives up, so that it must be far from what a slow
machine needs; the end of a run lists every wait and every test that used more than `NEAR` of its bound.
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
"""File to which each test process appends its waits near the bound, one JSON object a line; `bin/run-tests` prints them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait: what for, how long it took, and when it would have been given up, in seconds."""

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
    """Record a wait that came near its bound."""
    if wait.is_near:
        near_waits.append(wait)


def wait_until(
    look: Callable[[], T | Literal[False] | None], what: str, *, details: Callable[[], str] = str, bound_s: float = MAX_WAIT_S
) -> T:
    """Return what `look` returns as soon as that is true.

    Args:
        look: Asked again and again, about ten times a second.
        what: What is waited for, as in "waited 600 s for {what}".
        details: Text to add to the error, such as logs; only asked for then.
        bound_s: Seconds after which to give up.

    Raises:
        TimeoutError: it did not come true within the bound.
    """
    start = time.monotonic()
    while not (answer := look()):
        if time.monotonic() - start > bound_s:
            raise TimeoutError(f"waited {bound_s:.0f} s for {what}\n{details()}".rstrip())
        time.sleep(0.1)
    note(Wait(what, time.monotonic() - start, bound_s))
    return answer


def append_report() -> None:
    """Append the waits of this process to the file of the whole run, where there is one."""
    path = os.environ.get(REPORT_VARIABLE)
    if path and near_waits:
        with Path(path).open("a") as file:
            file.writelines(json.dumps(asdict(wait)) + "\n" for wait in near_waits)
