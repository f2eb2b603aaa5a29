"""The main job as a user runs it: the whole system on real readings, from an empty home to nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runtime.processes import free_port, marked

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.timeout(1500)]


def test_the_demonstration_survives_a_killed_driver_and_every_stream_equals_its_query(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = os.environ | {"HEADRACE_HOME": str(home), "HEADRACE_AIRFLOW_PORT": str(free_port())}
    command = [sys.executable, "-m", "headrace.cli.main", "demo", "--exit"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1400, check=False)
    except BaseException:  # an interrupted test, too, leaves nothing running
        subprocess.run([*command[:3], "down"], env=environment, capture_output=True, timeout=120, check=False)
        raise
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "[DRIVER_LOST]" in told
    assert "RUNNING again" in told
    assert done.stdout.count(" windows, equal") == 6
    assert "Every stream's table equals the batch query." in done.stdout
    assert marked(home) == []
    assert not home.exists()
