"""Installs the wheel with several versions of Airflow, each in an environment of its own, and runs the tests that need no system.

`python -m tests.airflow.versions 3.3.0 3.3.2`
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from headrace.runtime.airflow_versions import MINIMUM
from tests.airflow.test_installed_package import ROOT, build_wheel, look

# What the tests below import beside the package.
NEEDED: Final = ("pytest", "pytest-timeout", "hypothesis", "polars")
TESTS: Final = (
    "test_provider.py",
    "test_dags.py",
    "test_query_dags.py",
    "test_pipe_dags.py",
    "test_timetable.py",
    "test_supervision.py",
    "test_executor.py",
    "test_scheduling.py",
    "test_restart.py",
    "../doors/test_small_writes.py",
    "../doors/iotdb/test_door.py",
)
OLDEST: Final = {MINIMUM: ("uvicorn==0.37.0", "thrift==0.25.0")}
"""The oldest of the other packages whose insides are used, which are installed beside the oldest Airflow."""


def find_uv() -> str:
    """Return the path of uv, which `make setup` installs if it is missing."""
    return shutil.which("uv") or str(ROOT / ".make/uv/bin/uv")


def run(*command: str | Path, folder: Path = ROOT) -> None:
    print("+", *command, flush=True)  # noqa: T201
    subprocess.run([str(part) for part in command], cwd=folder, check=True)


def check_version(version: str, wheel: Path, folder: Path) -> None:
    """Install the wheel with a version of Airflow, and run the tests there.

    Raises:
        CalledProcessError: They failed.
    """
    environment = folder / version
    python = environment / "bin" / "python"
    run(find_uv(), "venv", "--quiet", "--python", sys.executable, environment)
    install = (find_uv(), "pip", "install", "--quiet", "--python", python, "--override", ROOT / "override.txt")
    run(*install, f"headrace[airflow] @ {wheel.as_uri()}", f"apache-airflow=={version}", *OLDEST.get(version, ()), *NEEDED)
    found = look(python, folder)
    assert found["airflow"] == version, found
    run(python, "-m", "pytest", "-p", "no:cacheprovider", *(f"tests/airflow/{name}" for name in TESTS))
    shutil.rmtree(environment)


def main() -> None:
    """Check the versions that the command line names."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = build_wheel(folder / "dist")
        for version in sys.argv[1:]:
            check_version(version, wheel, folder)


if __name__ == "__main__":
    main()
