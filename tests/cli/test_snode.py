"""`headrace snode` in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.cli.snode_statements import find_endpoint
from headrace.runtime.snode import Exit
from tests.support.waiting import wait_until

HEADRACE = (sys.executable, "-m", "headrace.cli.main")


def environment() -> dict[str, str]:
    return os.environ | {"HEADRACE_SPARK_MASTER": "local[1]"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a stream and a row that no driver has processed."""
    with headrace.connect(home=tmp_path / "home") as connection:
        connection.execute("CREATE DATABASE plant")
        connection.execute("USE plant")
        connection.execute("CREATE TABLE readings (ts TIMESTAMP, watts INT)")
        connection.execute(
            "CREATE STREAM per_minute TRIGGER AT_ONCE INTO sums AS SELECT _wstart, sum(watts) watts FROM readings INTERVAL(1m)"
        )
        connection.execute("INSERT INTO readings VALUES ('2024-05-01 12:00:00', 7)")
    return tmp_path / "home"


@pytest.fixture
def snode(home: Path) -> Iterator[subprocess.Popen[str]]:
    command = (*HEADRACE, "snode", "--home", str(home))
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def sql(home: Path, statement: str) -> str:
    command = (*HEADRACE, "sql", statement, "--home", str(home), "--format", "csv", "--database", "plant")
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout


def test_it_processes_rows_and_answers_statements_until_it_is_told_to_end(home: Path, snode: subprocess.Popen[str]) -> None:
    wait_until(lambda: find_endpoint(str(home), environment()), "the snode to serve statements")
    wait_until(lambda: "7" in sql(home, "SELECT watts FROM sums"), "the result of the stream")
    second = subprocess.run(
        (*HEADRACE, "snode", "--home", str(home), "--wait", "0"), env=environment(), capture_output=True, text=True
    )
    assert second.returncode == Exit.LEASE_HELD
    assert "default" in second.stderr
    snode.send_signal(signal.SIGTERM)
    assert snode.wait(timeout=300) == Exit.OK
    assert "per_minute" in sql(home, "SHOW STREAMS")
