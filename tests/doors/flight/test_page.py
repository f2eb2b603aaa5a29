"""The page about Flight SQL, with an open door."""

from __future__ import annotations

import pytest

from headrace.doors.flight import FlightDoor
from tests.docs.pages import DOOR_REASON, ROOT, parse_blocks

PAGE = ROOT / "docs" / "guides" / "connect-flight.md"
pytest.importorskip("adbc_driver_flightsql")


def test_the_snippets_run(door: FlightDoor, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for block in parse_blocks(PAGE) if block.skip_reason == DOOR_REASON]
    for block in blocks:
        exec(compile(block.text.replace("127.0.0.1:32010", door.address), block.location, "exec"), {})
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "{'flow': [3.5]}"
    assert second.endswith(", 2.5)]")
    assert third == "[(4,)]"
