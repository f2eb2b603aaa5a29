"""Processes forked from a server with the slow imports done, not from the multi-threaded test process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from headrace.model.failpoints import arm

CONTEXT: Final = multiprocessing.get_context("forkserver")
# All that the functions of tests import: a process would take more than a second of processor time for what is missing here.
CONTEXT.set_forkserver_preload(
    ["pytest", "hypothesis", "headrace.service.connecting", "tests.streams.worker", "tests.support.racing"]
)
MAX_WAIT_S: Final = 120


def start(function: Callable[..., Any], *arguments: Any, failpoints: str = "") -> ForkServerProcess:
    """Call a module-level function in a process with this one's environment, with failpoints armed; return the process."""
    process = CONTEXT.Process(target=_call_armed, args=(dict(os.environ), failpoints, function, arguments))
    process.start()
    return process


def die_at(failpoint: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Call a module-level function in a process that must be killed at a failpoint.

    Raises:
        AssertionError: The process ended in another way, or did not end.
    """
    process = start(function, *arguments, failpoints=f"{failpoint}:1:kill")
    process.join(MAX_WAIT_S)
    code = process.exitcode
    process.kill()
    assert code == -signal.SIGKILL, f"the process was not killed at {failpoint}: {code}"


def _call_armed(
    environment: Mapping[str, str], specification: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    take_environment(environment)
    arm(specification)
    function(*arguments)


def take_environment(environment: Mapping[str, str]) -> None:
    """Replace this process's environment, which is the server's: that of the test that was the first to need a process."""
    os.environ.clear()
    os.environ.update(environment)


def execute(home: Path, *statements: str) -> None:
    """Run statements on a connection to a home."""
    import headrace

    with headrace.connect(home) as connection:
        for statement in statements:
            connection.execute(statement)
