"""Runs functions in processes that start at the same moment, to test races."""

from __future__ import annotations

import os
import queue
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.synchronize import Barrier
from typing import Any

from tests.support.forking import CONTEXT, MAX_WAIT_S, take_environment


def race(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a module-level function in one process per tuple of arguments; return the results in order.

    Raises:
        AssertionError: A process failed.
        TimeoutError: The processes did not end in time.
    """
    start, outcomes = CONTEXT.Barrier(len(arguments)), CONTEXT.Queue()
    processes = [
        CONTEXT.Process(target=_run, args=(dict(os.environ), start, outcomes, number, function, args))
        for number, args in enumerate(arguments)
    ]
    for process in processes:
        process.start()
    try:
        results = dict(outcomes.get(timeout=MAX_WAIT_S) for _ in processes)
    except queue.Empty:
        raise TimeoutError(f"processes are still racing after {MAX_WAIT_S} s") from None
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


def _run(
    environment: Mapping[str, str],
    start: Barrier,
    outcomes: Any,
    number: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    take_environment(environment)
    try:
        start.wait(MAX_WAIT_S)
        outcomes.put((number, function(*args)))
    except BaseException:
        outcomes.put((number, _Failure(traceback.format_exc())))
