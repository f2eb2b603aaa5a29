"""Modules that commands import, which determine how fast they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

ARROW = {"numpy", "pyarrow", "deltalake", "pandas"}
ENGINES = {"pyspark", "duckdb"}
OTHERS = {"alembic", "httpx", "filelock", "rich.progress"}
COMMAND = """
import json, sys
from headrace.cli.main import app
try:
    app(sys.argv[1:])
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with a database and a table."""
    folder = tmp_path_factory.mktemp("imports") / "home"
    with headrace.connect(folder) as connection:
        connection.execute("create database d")
        connection.execute("create table d.t (ts timestamp, a int)")
    return folder


def imported(home: Path, *arguments: str) -> set[str]:
    """Run a command, and return the modules that its process imported."""
    process = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        env=os.environ | {"HEADRACE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stderr.splitlines()[-1]))


@pytest.mark.parametrize("statement", ["SHOW STREAMS", "SHOW d.TABLES", "DESCRIBE d.t", "EXPLAIN USE d"])
def test_statements_on_the_catalog_need_neither_arrow_nor_an_engine(home: Path, statement: str) -> None:
    assert not imported(home, "sql", statement) & (ARROW | ENGINES | OTHERS | {"sqlglot"})


def test_a_query_of_the_catalog_needs_no_spark(home: Path) -> None:
    query = "SELECT table_name, count(*) n FROM information_schema.ins_tables WHERE db_name LIKE 'd%' GROUP BY 1 ORDER BY 2 LIMIT 1"
    modules = imported(home, "sql", query)
    assert "duckdb" in modules
    assert not modules & {"pyspark", "headrace.compute", "headrace.streams.definition.define"}


def test_an_insert_needs_no_engine(home: Path) -> None:
    modules = imported(home, "sql", "INSERT INTO d.t VALUES (now, 1)")
    assert "deltalake" in modules
    assert not modules & (ENGINES | {"sqlglot", "headrace.compute", "headrace.streams.definition.define", "alembic", "httpx"})


def test_help_opens_no_catalog(home: Path) -> None:
    assert not imported(home, "--help") & (ARROW | ENGINES | OTHERS | {"sqlalchemy", "sqlglot", "headrace.service"})
