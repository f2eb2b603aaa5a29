from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.streams.sources import turns
from headrace.streams.sources.turns import Turns

THREADS = 6


def test_no_more_than_the_given_number_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONG_S", 3600.0)
    taken, lock, running, most = Turns(2, short=2), threading.Lock(), 0, 0
    both_run = threading.Barrier(2)

    def run(_: int) -> None:
        nonlocal running, most
        with taken.take():
            with lock:
                running += 1
                most = max(most, running)
            both_run.wait(60)
            with lock:
                running -= 1
            both_run.wait(60)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(2 * THREADS)))
    assert most == 2


def wait_beside_another(taken: Turns) -> None:
    """Wait until one runs beside another that does not end before."""
    done = threading.Event()

    def run() -> None:
        with taken.take():
            done.set()

    with ThreadPoolExecutor(1) as pool, taken.take():
        pool.submit(run)
        assert done.wait(60)


def test_others_run_beside_one_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONG_S", 0.05)
    wait_beside_another(Turns(1, short=1))


def test_short_ones_run_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHORT_S", 3600.0)
    taken, lock, running = Turns(4, short=1), threading.Lock(), threading.Lock()

    def run(_: int) -> bool:
        with taken.take():
            is_alone = running.acquire(blocking=False)
            with lock:
                pass
            running.release()
            return is_alone

    with ThreadPoolExecutor(THREADS) as pool:
        with lock:
            results = pool.map(run, range(2 * THREADS))
        assert all(results)


def test_one_that_takes_longer_is_no_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHORT_S", 0.05)
    monkeypatch.setattr(turns, "LONG_S", 3600.0)
    wait_beside_another(Turns(2, short=1))


def test_a_turn_passes_on_when_its_holder_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONG_S", 3600.0)
    taken = Turns(1, short=1)
    with pytest.raises(ZeroDivisionError), taken.take():
        raise ZeroDivisionError
    with taken.take():
        pass
