"""Signals that ask a process to stop: none is lost, and none makes the process wait for itself."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from headrace.runtime.signals import STOPPING, stop_signals
from tests.support.waiting import MAX_WAIT_S

SIGNALS = 300


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_calls_stop(number: int) -> None:
    stopped = threading.Event()
    with stop_signals(stopped.set):
        os.kill(os.getpid(), number)
        assert stopped.wait(MAX_WAIT_S)


def test_signals_at_any_moment_do_not_block_the_main_thread() -> None:
    event = threading.Event()

    def send() -> None:
        for _ in range(SIGNALS):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0)  # lets the main thread run

    sender = threading.Thread(target=send)
    with stop_signals(event.set):
        sender.start()
        while sender.is_alive():
            event.set()
            event.wait()
        sender.join()


def test_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with stop_signals(lambda: None):
        assert [signal.getsignal(number) for number in STOPPING] != before
    assert [signal.getsignal(number) for number in STOPPING] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_another_thread_gets_no_signals() -> None:
    handlers = []

    def use() -> None:
        with stop_signals(lambda: None):
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
