"""The page about clients, with a real door and the clients that are installed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOOR_REASON, ROOT, Block, parse_blocks
from tests.doors.conftest import PASSWORD, serve
from tests.support.maven import class_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JDBC = "com.taosdata.jdbc:taos-jdbcdriver:3.5.3"
MODULE = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)


def run_python(text: str, _: Path) -> str | None:
    """Return what code prints; None if it needs a package that is not installed."""
    if any(importlib.util.find_spec(name) is None for name in MODULE.findall(text)):
        return None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "snippet", "exec"), {"__name__": "snippet"})
    return printed.getvalue()


def run_shell(text: str, _: Path) -> str | None:
    if shutil.which("curl") is None:
        return None
    return subprocess.run(["bash", "-euc", text], check=True, capture_output=True, text=True).stdout


def run_java(text: str, folder: Path) -> str | None:
    try:
        path = class_path(JDBC)
    except pytest.skip.Exception:
        return None
    source = folder / "Sites.java"
    source.write_text(text)
    return subprocess.run(["java", "-cp", path, str(source)], check=True, capture_output=True, text=True).stdout


RUNNERS: dict[str, Callable[[str, Path], str | None]] = {"python": run_python, "sh": run_shell, "java": run_java}


@pytest.mark.spark
def test_each_client_prints_what_the_page_shows(spark: SparkSession, tmp_path: Path) -> None:  # noqa: ARG001
    blocks = [block for block in parse_blocks(ROOT / "docs/guides/connect.md") if block.skip_reason == DOOR_REASON]
    assert {block.language for block in blocks} == RUNNERS.keys()
    for served in serve(tmp_path / "home"):
        for block in blocks:
            check(block, served.door.address, tmp_path)


def check(block: Block, address: str, folder: Path) -> None:
    text = (
        block.text.replace("127.0.0.1:6041", address).replace("root:secret", f"root:{PASSWORD}").replace("=secret", f"={PASSWORD}")
    )
    output = RUNNERS[block.language](text.replace('"secret"', f'"{PASSWORD}"'), folder)
    if output is not None:
        assert output.split() == (block.expected or "").split(), f"{block.location}\n{output}"
