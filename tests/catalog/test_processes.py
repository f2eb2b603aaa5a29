"""Names of processes in claims, checked with real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.catalog.processes import has_ended, process_identity, read_status

SLEEPER = (
    "import sys; from headrace.catalog.processes import process_identity; print(process_identity(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def sleeper() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that waits, and its identity."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_process_has_ended_once_it_is_killed_even_before_it_is_reaped(sleeper: tuple[subprocess.Popen[str], str]) -> None:
    process, name = sleeper
    assert name.startswith(f"{socket.gethostname()}:{process.pid}:")
    assert not has_ended(f"backfill {name} 0123456789ab")
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert (read_status(process.pid) or ("", 0))[0] == "Z"
    assert has_ended(f"backfill {name} 0123456789ab")
    process.wait()
    assert has_ended(f"backfill {name} 0123456789ab")


def test_this_process_has_not_ended_but_an_earlier_one_with_its_id_has() -> None:
    name = process_identity()
    prefix, _, start = name.rpartition(".")
    assert not has_ended(name)
    assert has_ended(f"{prefix}.{int(start) - 1}")


def test_processes_elsewhere_and_names_without_an_identity_count_as_running(sleeper: tuple[subprocess.Popen[str], str]) -> None:
    process, name = sleeper
    process.kill()
    process.wait()
    host, pid, machine = name.split(":")
    elsewhere = f"{host}:{pid}:{'0' * 12}.{machine.partition('.')[2]}"
    assert has_ended(name)
    assert [has_ended(other) for other in (f"other-{name}", elsewhere, f"{host}:{pid}", "airflow/run", "snode default")] == [
        False
    ] * 5
