from __future__ import annotations

import os
import resource
import signal
import threading
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from headrace.catalog import Catalog
from headrace.catalog.locks import FileLocks, advisory_key, file_name
from headrace.errors import ConfigurationError, OperationalError, TransientError
from tests.support.forking import CONTEXT
from tests.support.racing import race

ROUNDS = 100


def count_up(url: str, name: str, counter: Path) -> None:
    """Increment a number in a file, which is safe only under the lock."""
    with Catalog.open(url) as catalog:
        for _ in range(ROUNDS):
            with catalog.lock(name):
                counter.write_text(str(int(counter.read_text()) + 1))


def hold(url: str, is_held: Event, enough: Event) -> None:
    with Catalog.open(url) as catalog, catalog.lock("power/meters"):
        is_held.set()
        enough.wait(60)


def test_processes_that_lock_a_name_take_turns(url: str, catalog: Catalog, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    race(count_up, [(url, "power/meters", counter)] * 3)
    assert counter.read_text() == str(3 * ROUNDS)
    with catalog.lock("power/meters", timeout_ms=0):
        pass


def remove_locks(url: str, until: Path) -> None:
    with Catalog.open(url) as catalog:
        while not until.exists():
            catalog._locks.remove_unused(seconds=0)


def test_processes_take_turns_while_files_of_locks_are_removed(tmp_path: Path) -> None:
    url, counter, until = f"sqlite:///{tmp_path}/catalog.db", tmp_path / "counter", tmp_path / "done"
    Catalog.open(url).close()
    counter.write_text("0")
    remover = CONTEXT.Process(target=remove_locks, args=(url, until))
    remover.start()
    race(count_up, [(url, "power/meters", counter)] * 3)
    until.touch()
    remover.join(60)
    assert (remover.exitcode, counter.read_text()) == (0, str(3 * ROUNDS))


def test_files_of_locks_that_are_held_or_were_used_of_late_stay(tmp_path: Path) -> None:
    with Catalog.open(f"sqlite:///{tmp_path}/catalog.db") as catalog:
        for name in ("held", "recent", "old"):
            with catalog.lock(name):
                pass
        for path in (tmp_path / "locks").glob("*.lock"):
            if not path.name.startswith("recent"):
                os.utime(path, (0, 0))
        with catalog.lock("held"):
            os.utime(next((tmp_path / "locks").glob("held*")), (0, 0))
            catalog.remove_unused_locks()
        assert sorted(path.name.split("-")[0] for path in (tmp_path / "locks").glob("*.lock")) == ["held", "recent"]


def test_threads_that_lock_a_name_take_turns(catalog: Catalog) -> None:
    inside: list[int] = []
    most = 0

    def work() -> None:
        nonlocal most
        for _ in range(50):
            with catalog.lock("power/meters"):
                inside.append(1)
                most = max(most, len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_thread_may_lock_what_it_has_locked(url: str, catalog: Catalog) -> None:
    with Catalog.open(url) as other, catalog.lock("a"), other.lock("a"), catalog.lock("a"), catalog.lock("b"):
        pass
    with catalog.lock("a", timeout_ms=0):
        pass


def test_a_lock_ends_when_its_block_fails(catalog: Catalog) -> None:
    with pytest.raises(ZeroDivisionError), catalog.lock("a"):
        raise ZeroDivisionError
    taken: list[str] = []

    def take() -> None:
        with catalog.lock("a", timeout_ms=0):
            taken.append("a")

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert taken == ["a"]


def test_waiting_for_a_thread_ends_with_an_error_that_names_this_process(catalog: Catalog) -> None:
    caught: list[TransientError] = []

    def wait() -> None:
        with pytest.raises(TransientError) as error, catalog.lock("power/meters", timeout_ms=20):
            pass
        caught.append(error.value)

    with catalog.lock("power/meters"):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert caught[0].message.startswith("power/meters has been locked for 0.02 s by another thread")
    assert f":{os.getpid()}" in caught[0].message


def test_waiting_for_a_process_ends_with_an_error_that_names_it_and_its_death_frees_the_lock(url: str, catalog: Catalog) -> None:
    held, enough = CONTEXT.Event(), CONTEXT.Event()
    process = CONTEXT.Process(target=hold, args=(url, held, enough))
    process.start()
    assert process.pid is not None
    try:
        assert held.wait(60)
        with catalog.lock("power/sensors", timeout_ms=0):
            pass
        with pytest.raises(TransientError, match=rf"power/meters has been locked for 0\.05 s by .*:{process.pid}"):
            catalog.lock("power/meters", timeout_ms=50).__enter__()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    with catalog.lock("power/meters"):
        pass


def test_a_lock_that_timed_out_leaves_the_catalog_usable(url: str, catalog: Catalog) -> None:
    held, enough = CONTEXT.Event(), CONTEXT.Event()
    process = CONTEXT.Process(target=hold, args=(url, held, enough))
    process.start()
    try:
        assert held.wait(60)
        for _ in range(3):
            with pytest.raises(TransientError):
                catalog.lock("power/meters", timeout_ms=10).__enter__()
        assert catalog.databases.all() == []
    finally:
        enough.set()
        process.join()
    with catalog.lock("power/meters"):
        assert catalog.databases.all() == []


def test_different_names_are_different_locks() -> None:
    names = ["power/meters", "power-meters", "power.meters", "Power/meters", "ü", "u", "x" * 200, "x" * 201]
    assert len({file_name(name).lower() for name in names}) == len(names)
    assert len({advisory_key(name) for name in names}) == len(names)


def test_a_folder_that_cannot_hold_locks_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"lock .* cannot be used"):
        Catalog.open(f"sqlite:///{tmp_path / 'catalog.db'}")


def test_a_process_with_too_many_open_files_may_lock_again_later(tmp_path: Path) -> None:
    locks = FileLocks(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OperationalError, match="Too many open files"), locks.hold("power/meters"):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with locks.hold("power/meters"):
        pass
