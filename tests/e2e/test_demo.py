"""The demonstration as a user runs it, from an empty home until everything is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runtime.processes import find_free_port, find_marked

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.timeout(1500)]


def test_the_demonstration_survives_a_killed_driver_and_every_stream_equals_its_query(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = os.environ | {"HEADRACE_HOME": str(home), "HEADRACE_AIRFLOW_PORT": str(find_free_port())}
    command = [sys.executable, "-m", "headrace.cli.main", "demo", "--exit"]
    try:
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1400, check=False)
    except BaseException:  # stop the system even if the test is interrupted
        subprocess.run([*command[:3], "down"], env=environment, capture_output=True, timeout=120, check=False)
        raise
    output = process.stdout + process.stderr
    assert process.returncode == 0, output
    assert "[DRIVER_LOST]" in output
    assert "RUNNING again" in output
    assert process.stdout.count(" windows, equal") == 6
    assert "beside those of the stream sea_by_day: equal" in process.stdout
    assert "Every stream's table equals the batch query." in process.stdout
    assert find_marked(home) == []
    assert not home.exists()
