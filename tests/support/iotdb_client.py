"""IoTDB's own Python client, whose requirements do not agree with ours: it is installed into the user's cache without them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

from headrace.storage.spark.jars import cache_directory

VERSION: Final = "1.3.4"
PACKAGE: Final = f"apache-iotdb=={VERSION}"
UV: Final = Path(__file__).parents[2] / ".make" / "uv" / "bin" / "uv"
INSTALL_SECONDS: Final = 120


def installer() -> list[str]:
    """Return the command that installs packages into a folder; skip the test if there is none."""
    for uv in (str(UV), shutil.which("uv")):
        if uv is not None and Path(uv).exists():
            return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    pip = shutil.which("pip")
    if pip is None:
        pytest.skip("there is neither uv nor pip to install IoTDB's client with")
    return [pip, "install", "--quiet"]


def installed_client() -> Path:
    """Return the folder of the client; install it if it is not there, or skip the test."""
    folder = cache_directory() / f"iotdb-client-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "iotdb").is_dir():
            command = [*installer(), "--no-deps", "--target", str(folder), PACKAGE]
            outcome = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
            if outcome.returncode:
                pytest.skip(f"IoTDB's client cannot be installed: {outcome.stderr[-500:]}")
    return folder


@pytest.fixture(scope="session")
def iotdb_client() -> None:
    """Make IoTDB's client importable, after all other packages: it brings a package `tests` of its own."""
    folder = str(installed_client())
    if folder not in sys.path:
        sys.path.append(folder)
