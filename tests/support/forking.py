"""Processes forked from a server with the slow imports done, not from the multi-threaded test process."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from headrace.model import failpoints

CONTEXT: Final = multiprocessing.get_context("forkserver")
# All that the functions of tests import: a process would take more than a second of processor time for what is missing here.
CONTEXT.set_forkserver_preload(
    ["pytest", "hypothesis", "headrace.service.connection", "tests.streams.environment", "tests.support.racing"]
)
MAX_WAIT_S: Final = 120


def die_at(failpoint: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Call a module-level function in a process that must be killed at a failpoint.

    Raises:
        AssertionError: The process ended in another way, or did not end.
    """
    process = CONTEXT.Process(target=_call_armed, args=(f"{failpoint}:1:kill", function, arguments))
    process.start()
    process.join(MAX_WAIT_S)
    code = process.exitcode
    process.kill()
    assert code == -signal.SIGKILL, f"the process was not killed at {failpoint}: {code}"


def _call_armed(specification: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    failpoints.arm(specification)
    function(*arguments)


def execute(home: Path, *statements: str) -> None:
    """Run statements on a connection to a home."""
    import headrace

    with headrace.connect(home) as connection:
        for statement in statements:
            connection.execute(statement)
