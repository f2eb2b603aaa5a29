"""IoTDB's JDBC driver, unchanged, in a small Java program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from headrace.doors.iotdb.door import IotdbDoor
from headrace.errors import ConfigurationError
from headrace.storage.spark.jars import JarSet, cached_jars
from tests.doors.iotdb.conftest import PASSWORD, USER

JARS: Final = JarSet("org.apache.iotdb:iotdb-jdbc:1.3.4", ())
PROGRAM: Final = Path(__file__).parent / "java" / "Client.java"
PRINTED: Final = """\
"""


@pytest.fixture(scope="module")
def class_path() -> str:
    try:
        return ":".join(map(str, cached_jars(JARS)))
    except ConfigurationError as error:
        pytest.skip(f"there is no JDBC driver: {error}")


def test_the_jdbc_driver_writes_and_reads(door: IotdbDoor, class_path: str) -> None:
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        class_path,
        str(PROGRAM),
        str(door.port),
        USER,
        PASSWORD,
    ]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == PRINTED
