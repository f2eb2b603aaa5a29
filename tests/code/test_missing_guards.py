"""Code hosts on kernels without Landlock or without seccomp: they run, and `headrace doctor` and the log say what is open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.doctor import check_code_hosts
from headrace.code.attendants import MAX_THREADS
from headrace.settings import load
from tests.code.hosting import LONG, rows_of, run_series, write_code

THREADS = "without notifications of seccomp, code may start any number of threads"
COUNT = """
from headrace.udf import UDTF, Type

class Same(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT64)
    def transform(self, row, collector):
        collector.put_long(row.get_time(), row.get_long(0))
"""


def run_without(guard: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.code.kernel_without", guard, str(folder)]
    result: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert result["acts"]["nothing"] == "fine"
    return result


def test_without_landlock_code_reads_files_and_starts_no_processes(tmp_path: Path) -> None:
    result = run_without("Landlock", tmp_path)
    notice = "without Landlock, code may read and write all files of the user"
    assert result["doctor"] == f"limited; {notice}"
    assert notice in result["log"]
    assert "functions.py" in result["acts"]["read_home"] or tmp_path.name in result["acts"]["read_home"]
    assert "PermissionError" in result["acts"]["spawn"]
    assert "Network is down" in result["acts"]["open_connection"]


def test_without_seccomp_code_starts_processes_and_reads_no_files(tmp_path: Path) -> None:
    result = run_without("seccomp", tmp_path)
    notice = "without seccomp, code may start processes, open connections, and send signals to processes of the user"
    assert result["doctor"] == f"limited; {notice}; {THREADS}"
    assert notice in result["log"]
    assert result["acts"]["spawn"].isdecimal()
    assert "PermissionError" in result["acts"]["open_connection"]  # Landlock closes TCP, too
    assert "PermissionError" in result["acts"]["read_home"]


def test_without_notifications_code_starts_any_number_of_threads_and_no_processes(tmp_path: Path) -> None:
    result = run_without("notifications", tmp_path)
    assert result["doctor"] == f"limited; {THREADS}"
    assert THREADS in result["log"]
    assert int(result["acts"]["start_small_threads"]) > MAX_THREADS
    assert "PermissionError" in result["acts"]["spawn"]
    assert "Network is down" in result["acts"]["open_connection"]


def test_a_system_with_all_guards_is_confirmed(tmp_path: Path) -> None:
    hosted = write_code(tmp_path, COUNT, "Same")
    assert run_series(hosted, LONG, rows_of([1]))["value"].to_pylist() == [1]
    if check_code_hosts(load(home=tmp_path)) == "confined by Landlock and seccomp and notifications":
        assert not Path(hosted.limits.log_folder).exists(), "a log says what is missing"
    else:
        pytest.skip("this system lacks a guard")
