"""Failpoints: named places where a test can make this process die, stop or fail. They cost nothing unless armed.

`HEADRACE_FAILPOINTS=name:count[:action][,…]` arms them when the process starts: the `count`-th passage of `name` triggers the
action, once. Actions: `kill` (SIGKILL to this process, the default), `stop` (SIGSTOP), `raise` (a `FailpointError`). Within a
process a failpoint may also call a function (`calling`), so that a test can order what races.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ACTIONS = ("kill", "stop", "raise")


class FailpointError(RuntimeError):
    """Raised by an armed failpoint."""


@dataclass(slots=True)
class _Failpoint:
    remaining: int
    action: str | Callable[[], None]


_lock = threading.Lock()
_points: dict[str, _Failpoint] = {}


def failpoint(name: str) -> None:
    """Pass a failpoint; an armed action happens here."""
    if not _points:
        return
    with _lock:
        point = _points.get(name)
        if point is None:
            return
        point.remaining -= 1
        if point.remaining > 0:
            return
        del _points[name]
    _perform(name, point.action)


def _perform(name: str, action: str | Callable[[], None]) -> None:
    match action:
        case Callable():
            action()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            raise FailpointError(f"failpoint {name}")


def arm(specification: str) -> None:
    """Arm failpoints by a specification as in `HEADRACE_FAILPOINTS`; raise `ValueError` if it is invalid."""
    for part in filter(None, specification.split(",")):
        name, _, rest = part.partition(":")
        count, _, action = rest.partition(":")
        action = action or "kill"
        if action not in ACTIONS or not count.isdigit() or int(count) < 1:
            raise ValueError(f"failpoint {part!r} is not name:count[:{'|'.join(ACTIONS)}]")
        _points[name] = _Failpoint(int(count), action)


@contextmanager
def armed(specification: str) -> Iterator[None]:
    arm(specification)
    try:
        yield
    finally:
        _points.clear()


@contextmanager
def calling(name: str, action: Callable[[], None], passage: int = 1) -> Iterator[None]:
    """Call a function when a failpoint is passed for the `passage`-th time, during a `with` block."""
    _points[name] = _Failpoint(passage, action)
    try:
        yield
    finally:
        _points.pop(name, None)


arm(os.environ.get("HEADRACE_FAILPOINTS", ""))
