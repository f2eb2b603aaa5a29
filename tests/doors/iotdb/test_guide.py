"""The programs of the guide about IoTDB's clients."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

import pytest

from headrace.doors.iotdb.door import IotdbDoor
from tests.docs.pages import DOOR_REASON, ROOT, Block, parse_blocks
from tests.doors.iotdb.conftest import PASSWORD
from tests.doors.iotdb.test_jdbc import class_path  # noqa: F401  (fixture)

PAGE = ROOT / "docs" / "guides" / "connect-iotdb.md"


def program(language: str, door: IotdbDoor) -> tuple[Block, str]:
    """Return a program of the guide, and its text for the door of the tests."""
    (block,) = (one for one in parse_blocks(PAGE) if one.language == language)
    assert block.skip_reason == DOOR_REASON
    return block, block.text.replace("6667", str(door.port)).replace("a password", PASSWORD)


@pytest.mark.usefixtures("iotdb_client")
def test_the_programs_print_what_they_should(door: IotdbDoor, tmp_path: Path, class_path: str) -> None:  # noqa: F811
    block, text = program("python", door)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(text, PAGE, "exec"), {"__name__": "guide"})
    assert block.expected is not None
    assert [line.split() for line in output.getvalue().splitlines()] == [line.split() for line in block.expected.splitlines()]
    java, text = program("java", door)
    source = tmp_path / java.name
    source.write_text(text)
    outcome = subprocess.run(["java", "-cp", class_path, str(source)], capture_output=True, text=True, timeout=300, check=False)
    assert outcome.stdout.split() == ["2000", "44.0", "3000", "52.0"], outcome.stderr
