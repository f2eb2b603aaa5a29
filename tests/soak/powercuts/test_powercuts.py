"""Power cuts, of which `make campaign-powercuts` makes more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.powercuts.disk import build
from tests.support.drawing import SEED

CUTS = int(os.environ.get("HEADRACE_CUTS", "10"))


def play(folder: Path, cuts: int, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    library = build(folder)
    if library is None:
        pytest.skip("there is no C compiler")
    command = [sys.executable, "-m", "tests.soak.powercuts.campaign", str(folder), str(cuts), str(SEED)]
    environment = {**os.environ, "LD_PRELOAD": str(library), **variables}
    stdout = None if "HEADRACE_CUTS" in os.environ else subprocess.PIPE
    return subprocess.run(command, env=environment, stdout=stdout, text=True, check=False)


@pytest.mark.timeout(max(300, 60 * CUTS))
def test_acknowledged_rows_and_results_survive_power_cuts(tmp_path: Path) -> None:
    done = play(tmp_path, CUTS, {})
    assert done.returncode == 0, done.stdout
    if done.stdout:
        assert json.loads(done.stdout.splitlines()[-1])["cuts"] == CUTS
