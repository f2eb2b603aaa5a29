"""Tables in a Hive metastore."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigurationError
from headrace.settings import load

ROOT = Path(__file__).parents[2]


def run(scenario: str, folder: Path) -> tuple[Any, str]:
    """Run a scenario in a process of its own; return what it shows, and its log."""
    command = [sys.executable, "-m", "tests.runtime.metastore_process", str(folder), scenario]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1]), ended.stderr


@pytest.mark.drawn(6)
@pytest.mark.spark
def test_maintenance_registers_tables_and_drops_those_that_are_gone(tmp_path: Path) -> None:
    shown, log = run("main", tmp_path)
    assert shown["results"] == [["north", 1], ["süd", 2]]
    assert shown["tags"] == [[1, "north"], [2, "süd"]]
    assert shown["first"] == {
        "d": ["alias", "m", "m_tags", "o", "o_tags", "plain"],
        "gone": ["m", "m_tags"],
        "theirs": [],
    }
    assert shown["written"] == 0
    assert shown["comments"] == {
        "m": "it's a meter",
        "o": f"results of stream d.s, owner {getpass.getuser()}; ws: d.m.ts; total: d.m.v; site: d.m.site; tbname: d.m.site",
    }
    assert shown["second"] == ["alias", "m", "m_tags", "plain"]
    assert shown["schemas"] == ["d", "default", "theirs"]
    ((kind, message),) = shown["events"]
    assert (kind, message) == (
        "METASTORE_FAILED",
        "tables cannot be registered in the metastore: the schema theirs is not of this warehouse",
    )
    assert "d.Upper is not registered" in log


@pytest.mark.drawn(6)
@pytest.mark.spark
def test_a_metastore_that_is_away_is_an_event(tmp_path: Path) -> None:
    shown, log = run("away", tmp_path)
    assert (shown["maintained"], shown["rows"]) == (["d.m"], [[1]])
    ((kind, message),) = shown["events"]
    assert kind == "METASTORE_FAILED"
    assert message.startswith("tables cannot be registered in the metastore: ")
    assert message in log


def test_an_address_that_is_none_of_a_metastore_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="metastore"):
        load(metastore="localhost:9083")
