"""What a live snode answers looks as if the command line had opened the home."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from headrace.cli.app import app
from headrace.cli.output import Format, show_rows
from headrace.cli.snode_statements import ask_snode, find_endpoint, request_rows
from headrace.cli.sql import FLAGS, OPTIONS, SqlCommand, parse_command
from headrace.errors import NotFoundError, SqlSyntaxError
from headrace.model.spans import Span
from headrace.runtime.credentials import Identity
from headrace.runtime.http import MAX_JSON_ROWS, Guard, Health, StatementResult, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.snode_client import SnodeEndpoint, endpoint_file, write_endpoint
from headrace.service.results import Result

AT = datetime(2024, 5, 1, 10, 5, 0, 250_000, UTC)
TABLE = pa.table(
    {
        "ts": pa.array([AT, None], pa.timestamp("us", "UTC")),
        "ms": pa.array([AT.replace(microsecond=0), None], pa.timestamp("ms", "UTC")),
        "i": pa.array([1, None], pa.int32()),
        "u": pa.array([Decimal(2**64 - 1), None], pa.decimal128(20, 0)),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "f": pa.array([0.1, float("nan")], pa.float32()),
        "g": pa.array([1e300, float("-inf")], pa.float64()),
        "b": pa.array([True, None], pa.bool_()),
        "x": pa.array([b"\x00\xff", None], pa.binary()),
        "s": pa.array(["“text”", None], pa.string()),
    }
)
MANY = pa.table({"n": list(range(MAX_JSON_ROWS + 1))})
CATALOG = "sqlite:////anywhere"


def run_sql(sql: str, *_: object, **__: object) -> StatementResult:
    if "missing" in sql:
        raise NotFoundError("table missing does not exist", span=Span(14, 21))
    if "FRM" in sql:
        raise SqlSyntaxError("unexpected FRM", span=Span(9, 12))
    return StatementResult(MANY if "many" in sql else TABLE)


@pytest.fixture(scope="module")
def snode() -> Iterator[SnodeEndpoint]:
    served: Endpoint
    served = Endpoint(create_app(Guard("t", identity=lambda: Identity(1, served.address)), run_sql, lambda: Health(True, {}), str))
    served.start()
    yield SnodeEndpoint("default", 1, served.address, "t")
    served.stop()


@pytest.mark.parametrize("output_format", Format)
def test_values_are_shown_alike(snode: SnodeEndpoint, output_format: Format, capsys: pytest.CaptureFixture[str]) -> None:
    rows = request_rows(snode, "SELECT", "tdengine", None)
    assert rows is not None
    show_rows(rows, output_format)
    received = capsys.readouterr().out
    show_rows(Result(TABLE), output_format)
    assert received == capsys.readouterr().out


def test_many_rows_come_as_arrow(snode: SnodeEndpoint) -> None:
    rows = request_rows(snode, "SELECT many", "tdengine", None)
    assert isinstance(rows, Result)
    assert len(list(rows.tuples())) == MAX_JSON_ROWS + 1


def test_results_before_an_error_are_kept_unless_it_is_one_of_syntax(snode: SnodeEndpoint) -> None:
    answers = ask_snode(snode, "SELECT a FROM b;\nSELECT a FROM missing", "tdengine", None, "rooms.sql")
    assert answers is not None
    results, error = answers
    assert len(results) == 1
    assert error is not None
    assert error.message == "rooms.sql, line 2: table missing does not exist"
    wrong = ask_snode(snode, "SELECT a FROM b; SELECT a FRM missin", "tdengine", None)
    assert wrong is not None
    assert (wrong[0], wrong[1] and wrong[1].code) == ([], "SYNTAX")


@pytest.mark.parametrize(
    "text", ["", "-- SHOW", "USE d; SHOW TABLES", "INSERT INTO t SELECT 1", "select s1 into root.a(b) from root.c"]
)
def test_other_statements_are_not_sent(snode: SnodeEndpoint, text: str) -> None:
    assert ask_snode(snode, text, "iotdb", None) is None


def test_the_file_of_an_endpoint_belongs_to_its_owner_and_its_catalog(tmp_path: Path, snode: SnodeEndpoint) -> None:
    write_endpoint(tmp_path, CATALOG, snode)
    file = Path(endpoint_file(tmp_path, "default"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert find_endpoint(str(tmp_path), {"HEADRACE_CATALOG_URL": CATALOG}) == snode
    assert find_endpoint(None, {"HEADRACE_CATALOG_URL": CATALOG, "headrace_home": str(tmp_path)}) == snode
    assert find_endpoint(str(tmp_path), {}) is None
    assert find_endpoint(str(tmp_path), {"HEADRACE_CATALOG_URL": CATALOG, "HEADRACE_SNODE": "snode2"}) is None
    file.write_text("{")
    assert find_endpoint(str(tmp_path), {"HEADRACE_CATALOG_URL": CATALOG}) is None


def test_the_quick_parser_knows_the_options_of_the_complete_one() -> None:
    command = typer.main.get_command(app).commands["sql"]  # type: ignore[attr-defined]
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("-")}
    assert options == {*OPTIONS, *FLAGS}


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["SHOW STREAMS"], SqlCommand("SHOW STREAMS")),
        (
            ["-d", "cold", "--format=csv", "-y", "-f", "x.sql"],
            SqlCommand(None, "x.sql", database="cold", output_format="csv", yes=True),
        ),
        (["--home", "h", "-F", "|", "SELECT"], SqlCommand("SELECT", home="h", separator="|")),
        (["--help"], None),
        (["-d"], None),
        (["a", "b"], None),
        (["--format", "xml"], None),
    ],
)
def test_arguments(arguments: list[str], command: SqlCommand | None) -> None:
    assert parse_command(arguments) == command
