"""Thousands of clients that connect and send nothing, or half of something: others are served, in bounded memory."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import psutil
import pytest

from tests.doors.conftest import PASSWORD

CLIENTS = 9_900
MAX_MIB = 250
HALF = {"iotdb": b"\0\0\0", "tdengine": b"GET /-/ping HTTP/1.1\r\nHost: x\r\n", "flight": b"PRI * HTTP/2.0\r\n"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    """A process with all doors open, and their addresses."""
    command = [sys.executable, "-m", "tests.doors.serving", str(tmp_path_factory.mktemp("idle")), PASSWORD]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield psutil.Process(process.pid), json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextmanager
def many_files() -> Iterator[int]:
    """Allow as many open files as possible, and yield how many clients that is enough for."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CLIENTS + 1_000
    limit = max(soft, wanted if hard == resource.RLIM_INFINITY else min(wanted, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield min(CLIENTS, limit - 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def is_served(address: str) -> bool:
    answer = httpx.post(
        f"http://{address}/rest/sql", content="show databases", auth=("root", PASSWORD), timeout=600, trust_env=False
    )
    return bool(answer.json()["code"] == 0)


@pytest.mark.parametrize("door", HALF)
def test_idle_clients_cost_others_nothing(server: tuple[psutil.Process, dict[str, str]], door: str) -> None:
    process, addresses = server
    assert is_served(addresses["tdengine"])
    memory, threads = process.memory_info().rss, process.num_threads()
    host, _, port = addresses[door].rpartition(":")
    with many_files() as count, ExitStack() as stack:
        for number in range(count):
            client = stack.enter_context(socket.create_connection((host, int(port)), 600))
            if number % 2:
                client.sendall(HALF[door])
        assert is_served(addresses["tdengine"])
        assert process.num_threads() <= threads + 8
        assert (process.memory_info().rss - memory) >> 20 < MAX_MIB
