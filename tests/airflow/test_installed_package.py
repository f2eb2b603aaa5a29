"""The wheel brings all that an existing Airflow needs: plugin, provider, DAG bundle, operators and Spark jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headrace

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("installed_package.py")


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Return the Python of a new environment that has the wheel, and below it the packages of this one but not the checkout."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "below.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def look(python: Path, home: Path) -> dict[str, Any]:
    """Return what a process of an environment finds, away from the checkout."""
    airflow = {"AIRFLOW_HOME": str(home / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment = {"PATH": os.defpath, "HOME": str(home), "HEADRACE_HOME": str(home / "home"), **airflow}
    command = [str(python), "-I", str(SCRIPT)]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_command(environment: Path, home: Path, *arguments: str) -> str:
    """Return what the command of an environment prints."""
    variables = {"PATH": os.defpath, "HOME": str(home), "HEADRACE_HOME": str(home / "home")}
    command = [str(environment / "bin" / "headrace"), *arguments]
    return subprocess.run(command, cwd=home, env=variables, capture_output=True, text=True, check=True).stdout


@pytest.mark.airflow
def test_an_airflow_finds_all_that_the_wheel_brings(tmp_path: Path) -> None:
    python = install(build_wheel(tmp_path / "dist"), tmp_path / "environment")
    found = look(python, tmp_path)
    for key in ("package", "operators", "bundle"):
        assert found[key].startswith(str(tmp_path / "environment")), key
    run = partial(run_command, tmp_path / "environment", tmp_path)
    assert run("--version") == f"headrace {headrace.__version__}\n"
    run("sql", "CREATE DATABASE d; CREATE TABLE d.t (ts TIMESTAMP, a INT); INSERT INTO d.t VALUES (0, 1) (1, 2)")
    assert run("sql", "--format", "csv", "SELECT sum(a) n FROM d.t") == "n\n3\n"
    assert found["hook"] == "headrace.airflow.hooks.HeadraceHook"
    assert found["plugins"] == ["headrace"]
    assert found["dags"] == ["headrace_snode__default"]
    assert found["executable"] == ["keep-running", "python-guard", "spark-submit-guard"]
    assert found["jobs"] == sorted(path.name for path in (ROOT / "spark_jobs").glob("*.py"))
