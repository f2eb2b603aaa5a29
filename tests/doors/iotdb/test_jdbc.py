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
PRINTED: Final = (
    "batch of 10",
    "Time TIMESTAMP | root.jdbc.d.b BOOLEAN | root.jdbc.d.i INT32 | root.jdbc.d.l INT64 | root.jdbc.d.f FLOAT |"
    " root.jdbc.d.d DOUBLE | root.jdbc.d.t TEXT | root.jdbc.d.s STRING |"
    " root.jdbc.d.ts TIMESTAMP | root.jdbc.d.day DATE | root.jdbc.d.raw BLOB |",
    "1 | true | -7 | 9007199254740993 | 1.5 | 0.1 | grün | x | 1700000000000 | 2024-02-29 | 0x00ff |",
    "2 | null | 20 | null | null | null | row 2 | null | null | null | null |",
    "3 | null | 30 | null | null | null | row 3 | null | null | null | null |",
    "4 | null | 40 | null | null | null | row 4 | null | null | null | null |",
    "5 | null | 50 | null | null | null | row 5 | null | null | null | null |",
    "count(root.jdbc.d.i) INT64 | sum(root.jdbc.d.i) DOUBLE |",
    "5 | 133.0 |",
    "Device TEXT | IsAligned TEXT | Template TEXT | TTL(ms) TEXT |",
    "root.jdbc.d | false | null | INF |",
    "Time TIMESTAMP | root.jdbc.d.i INT32 |",
    "error 700 700: Error occurred while pars",
    "error 501 501: root.jdbc has already been created as database (hint: use another path)",
    "rejected: 801: wrong user or password (hint: check both)",
)


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
    assert tuple(line.rstrip() for line in outcome.stdout.splitlines()) == PRINTED
