"""The scripts of `spark_jobs/`: their arguments, and that they only parse and call."""

from __future__ import annotations

import argparse
import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.settings import current

SCRIPTS = sorted((current().project / "spark_jobs").glob("*.py"))


def parser(name: str) -> argparse.ArgumentParser:
    made = runpy.run_path(str(current().project / "spark_jobs" / f"{name}.py"))["build_parser"]()
    assert isinstance(made, argparse.ArgumentParser)
    return made


def test_the_snode_script_passes_name_backfills_and_wait() -> None:
    defaults = parser("snode").parse_args([])
    assert (defaults.snode, defaults.no_fill, defaults.wait) == (None, False, None)
    given = parser("snode").parse_args(["--snode", "second", "--no-fill", "--wait", "0"])
    assert (given.snode, given.no_fill, given.wait) == ("second", True, 0.0)


def test_the_backfill_script_passes_stream_run_and_chunk() -> None:
    given = parser("fill_history").parse_args(["--stream", "id", "--run", "manual", "--chunk", "3"])
    assert (given.stream, given.run, given.chunk) == ("id", "manual", 3)
    defaults = parser("fill_history").parse_args(["--stream", "id"])
    assert (defaults.run, defaults.chunk) == ("history", None)


def test_the_transfer_script_passes_pipe_run_and_chunk() -> None:
    given = parser("transfer_history").parse_args(["--pipe", "id", "--run", "manual", "--chunk", "3"])
    assert (given.pipe, given.run, given.chunk) == ("id", "manual", 3)


def test_maintenance_keeps_a_week_by_default() -> None:
    assert parser("maintenance").parse_args([]).retention_hours is None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_explains_itself_and_does_nothing_but_parse_and_call(script: Path) -> None:
    assert parser(script.stem).description == ast.get_docstring(ast.parse(script.read_text()))
    functions = [node.name for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.FunctionDef)]
    assert functions == ["build_parser"]


@pytest.mark.parametrize("module", ["headrace.runtime.driver", "headrace.runtime.query_work", "headrace.service.session"])
def test_a_process_starts_without_pandas(module: str) -> None:
    code = f"import sys, {module}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
