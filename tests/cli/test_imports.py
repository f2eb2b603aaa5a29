"""Modules that commands import, which determine how fast they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.runtime.context import open_context
from headrace.runtime.credentials import Identity
from headrace.runtime.http import Guard, Health, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.snode_client import SnodeEndpoint, endpoint_file, write_endpoint
from headrace.service.endpoint import sql_runner
from headrace.settings import load

ARROW = {"numpy", "pyarrow", "deltalake", "pandas"}
ENGINES = {"pyspark", "duckdb"}
OTHERS = {"alembic", "httpx", "filelock", "rich.progress", "fastapi", "pydantic_settings", "sqlalchemy.orm"}
TERMINAL = {"typer", "click", "rich", "prompt_toolkit"}
MAX_CLIENT_MODULES = 250
MAX_CATALOG_MODULES = 560
COMMAND = """
import json, sys
from headrace.cli.main import main
try:
    main()
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


@pytest.fixture
def with_snode(home: Path) -> Iterator[Path]:
    """Yield the home while an endpoint serves its statements, as an snode does."""
    settings = load(home=home)
    context = open_context(settings)
    served: Endpoint
    guard = Guard("token", identity=lambda: Identity(1, served.address))
    served = Endpoint(create_app(guard, sql_runner(context), lambda: Health(True, {}), str))
    served.start()
    write_endpoint(home, settings.catalog, SnodeEndpoint(settings.snode, 1, served.address, "token"))
    yield home
    served.stop()
    context.catalog.close()
    Path(endpoint_file(home, settings.snode)).unlink()


def imported(home: Path, *arguments: str) -> set[str]:
    """Run a command, and return the modules that its process imported."""
    return execute(home, *arguments)[0]


def execute(home: Path, *arguments: str) -> tuple[set[str], str]:
    """Run a command, and return the modules that its process imported, and its output."""
    process = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        env=os.environ | {"HEADRACE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stderr.splitlines()[-1])), process.stdout


@pytest.mark.parametrize("statement", ["SHOW STREAMS", "SHOW d.TABLES", "DESCRIBE d.t", "EXPLAIN USE d"])
def test_statements_on_the_catalog_need_neither_arrow_nor_an_engine(home: Path, statement: str) -> None:
    assert not imported(home, "sql", statement) & (ARROW | ENGINES | OTHERS | TERMINAL)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SHOW STREAMS", "stream_name"),
        ("SHOW d.TABLES; DESCRIBE d.t", "TIMESTAMP"),
        ("SELECT db_name, count(*) n FROM information_schema.ins_tables GROUP BY 1", "d,1"),
    ],
)
def test_what_a_live_snode_answers_needs_few_modules(with_snode: Path, statement: str, expected: str) -> None:
    modules, output = execute(with_snode, "sql", statement, "--format", "csv")
    assert expected in output
    needless = ARROW | ENGINES | OTHERS | TERMINAL | {"sqlalchemy", "pydantic", "headrace.catalog", "headrace.model.statements"}
    assert not modules & needless
    assert len(modules) < MAX_CLIENT_MODULES


def test_a_command_without_an_snode_imports_no_more_than_sqlalchemy_itself(home: Path) -> None:
    modules = imported(home, "sql", "SHOW STREAMS")
    assert not modules & {"pydantic", "sqlalchemy.dialects.postgresql", "sqlalchemy.orm"}
    assert len(modules) < MAX_CATALOG_MODULES


def test_what_changes_something_is_not_sent_to_the_snode(with_snode: Path) -> None:
    assert "sqlalchemy" in imported(with_snode, "sql", "SHOW STREAMS; CREATE DATABASE IF NOT EXISTS d")


def test_an_snode_that_has_died_leaves_the_statement_to_the_client(home: Path) -> None:
    settings = load(home=home)
    write_endpoint(home, settings.catalog, SnodeEndpoint(settings.snode, 1, "http://127.0.0.1:9", "token"))
    modules, output = execute(home, "sql", "SHOW d.TABLES", "--format", "csv")
    assert "sqlalchemy" in modules
    assert output.splitlines()[1].startswith("t")


def test_a_query_of_the_catalog_needs_no_spark(home: Path) -> None:
    query = "SELECT table_name, count(*) n FROM information_schema.ins_tables WHERE db_name LIKE 'd%' GROUP BY 1 ORDER BY 2 LIMIT 1"
    modules = imported(home, "sql", query)
    assert "duckdb" in modules
    assert not modules & {"pyspark", "headrace.compute", "headrace.streams.definition.define"}


def test_an_insert_needs_no_engine(home: Path) -> None:
    modules = imported(home, "sql", "INSERT INTO d.t VALUES (now, 1)")
    assert "deltalake" in modules
    assert not modules & (ENGINES | {"headrace.compute", "headrace.streams.definition.define", "alembic", "httpx"})


def test_help_opens_no_catalog(home: Path) -> None:
    assert not imported(home, "--help") & (ARROW | ENGINES | OTHERS | {"sqlalchemy", "headrace.service"})
