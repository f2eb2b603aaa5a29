"""Real processes that race each other: each runs a module-level function, all begin at the same moment."""

from __future__ import annotations

import multiprocessing
import queue
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from typing import Any, Final

# Children are forked from a server that has done the slow imports, never from the test process with its threads.
CONTEXT: Final = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["headrace.catalog", "alembic.command"])
PATIENCE: Final = 120


def race(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What `function` returned for each tuple of arguments, each in a process of its own; the first error is raised."""
    start, outcomes = CONTEXT.Barrier(len(arguments)), CONTEXT.Queue()
    processes = [
        CONTEXT.Process(target=_run, args=(start, outcomes, number, function, given)) for number, given in enumerate(arguments)
    ]
    for process in processes:
        process.start()
    try:
        results = dict(outcomes.get(timeout=PATIENCE) for _ in processes)
    except queue.Empty:
        raise TimeoutError(f"processes are still racing after {PATIENCE} s") from None
    finally:
        for process in processes:
            process.join(timeout=5)
            process.kill()
    for failure in results.values():
        if isinstance(failure, _Failure):
            raise AssertionError(f"a racing process failed:\n{failure.text}")
    return [results[number] for number in range(len(processes))]


class _Failure:
    def __init__(self, text: str) -> None:
        self.text = text


def _run(start: Barrier, outcomes: Any, number: int, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        start.wait(PATIENCE)
        outcomes.put((number, function(*given)))
    except BaseException:
        outcomes.put((number, _Failure(traceback.format_exc())))
