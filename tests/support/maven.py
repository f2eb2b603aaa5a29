"""Jars of Maven's central repository, for tests with clients in Java."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path.home() / ".cache" / "headrace" / "test-jars"
MAX_DOWNLOAD_S: Final = 300
POM: Final = """<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>test</artifactId><version>1</version>
<dependencies><dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency></dependencies></project>"""


def class_path(coordinate: str) -> str:
    """Return the class path of `group:artifact:version` with all that it needs; skip the test if it cannot be had."""
    folder = FOLDER / coordinate.replace(":", "-")
    if not folder.is_dir():
        download(coordinate, folder)
    return f"{folder}/*"


def download(coordinate: str, folder: Path) -> None:
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("there is no Maven, or no Java")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as work:
        (Path(work) / "pom.xml").write_text(POM.format(*coordinate.split(":")))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        try:
            subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=MAX_DOWNLOAD_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{coordinate} cannot be downloaded")
        (Path(work) / "jars").rename(folder)
