"""The page about Flight SQL, with an open door."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.doors.flight import FlightDoor
from tests.docs.pages import DOOR_REASON, ROOT, parse_blocks
from tests.support.maven import class_path

PAGE = ROOT / "docs" / "guides" / "connect-flight.md"
pytest.importorskip("adbc_driver_flightsql")


def test_the_snippets_run(door: FlightDoor, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for block in parse_blocks(PAGE) if block.skip_reason == DOOR_REASON]
    for block in (block for block in blocks if block.language == "python"):
        exec(compile(block.text.replace("127.0.0.1:32010", door.address), block.location, "exec"), {})
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "{'flow': [3.5]}"
    assert second.endswith(", 2.5)]")
    assert third == "[(4,)]"
    (program,) = (block.text for block in blocks if block.language == "java")
    assert run_java(program.replace("127.0.0.1:32010", door.address), tmp_path) == [
        "2026-01-01T00:01:00Z 5.5",
        "2026-01-01T00:02:00Z 6.5",
        "ts TIMESTAMP_WITH_TIMEZONE",
        "flow DOUBLE",
        "hall VARCHAR",
    ]


def run_java(program: str, folder: Path) -> list[str]:
    """Return the lines that a program prints with the JDBC driver; skip the test if there is no driver."""
    (folder / "Flows.java").write_text(program)
    path = class_path("org.apache.arrow:flight-sql-jdbc-driver:18.3.0")
    command = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-Duser.timezone=UTC", "-cp", path, str(folder / "Flows.java")]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.splitlines()
