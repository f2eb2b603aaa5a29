"""The section about pipes to and from IoTDB, with a real server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.pages import IOTDB_REASON, ROOT, Block, section_blocks
from tests.docs.snippet_runner import SnippetRunner
from tests.pipes.iotdb_results import execute, rows
from tests.support.iotdb_server import Server

PAGE = ROOT / "docs" / "guides" / "pipes-reference.md"


def at_server(block: Block, server: Server) -> Block:
    """Return a block whose pipes connect to a server of the tests."""
    return replace(block, text=block.text.replace("port'='6667'", f"port'='{server.port}'"), skip_reason=None)


@pytest.mark.timeout(600)
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_snippets_run_with_a_server(iotdb_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(
        iotdb_server,
        "CREATE DATABASE root.legacy",
        "INSERT INTO root.legacy.line1(time, temperature, speed) VALUES (1, 20.5, 300), (2, 21.0, 310)",
    )
    blocks = [block for block in section_blocks(PAGE, "IoTDB") if block.language in ("sql", "sh")]
    assert any(block.skip_reason == IOTDB_REASON for block in blocks)
    runner = SnippetRunner(tmp_path, monkeypatch)
    try:
        for block in blocks:
            runner.run(at_server(block, iotdb_server))
    finally:
        runner.close()
    assert rows(iotdb_server, "SELECT temperature, speed FROM root.plant.line1") == [(1, 20.5, 300.0), (2, 21.0, 310.0)]
    assert rows(iotdb_server, "SELECT temperature FROM root.plant.line2") == [(1, 64.5)]
