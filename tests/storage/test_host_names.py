"""Spark starts where no address belongs to the machine's name, as in a container without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.settings import load
from headrace.storage.spark.java import host_variables

WITH_OTHER_NAME = (
    "unshare",
    "--user",
    "--map-root-user",
    "--uts",
    "--",
    "sh",
    "-c",
    'hostname no-address.invalid && exec "$@"',
    "sh",
)
START = """
import sys
from headrace.settings import load
from headrace.storage.spark.session import start_session
print(start_session(load(home=sys.argv[1], spark_master="local[1]")).range(3).count())
"""


def run_with_other_name(*command: str) -> subprocess.CompletedProcess[str]:
    if subprocess.run([*WITH_OTHER_NAME, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let a process have a host name of its own")
    return subprocess.run([*WITH_OTHER_NAME, *command], capture_output=True, text=True, check=False)


@pytest.mark.drawn(4)
def test_spark_starts_although_the_name_of_the_machine_has_no_address(tmp_path: Path) -> None:
    done = run_with_other_name(sys.executable, "-c", START, str(tmp_path))
    assert done.stdout == "3\n", done.stderr


def test_only_a_local_spark_without_an_address_gets_another_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert host_variables(load(home=tmp_path).spark_master) == {}
    monkeypatch.delenv("SPARK_LOCAL_IP")
    script = "from headrace.storage.spark.java import host_variables as of; print(of('local[2]'), of('spark://master:7077'))"
    done = run_with_other_name(sys.executable, "-c", script)
    assert done.stdout == "{'SPARK_LOCAL_HOSTNAME': 'localhost'} {}\n", done.stderr
