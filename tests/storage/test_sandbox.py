"""DuckDB is confined: SQL cannot read a file, load an extension or lift the confinement."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import headrace
from headrace.storage.sandbox import open_database


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT content FROM read_text('{file}')",
        "COPY (SELECT 1) TO '{file}.copy'",
        "ATTACH '{file}.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT * FROM secret",
    ],
)
def test_sql_cannot_leave_the_sandbox(tmp_path: Path, sql: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    secret = pa.table({"a": [1]})  # a variable that a replacement scan would find
    with open_database() as connection, pytest.raises(duckdb.Error):
        connection.execute(sql.format(file=file))
    assert secret.num_rows == 1
    assert list(tmp_path.iterdir()) == [file]


def test_registered_tables_can_be_read() -> None:
    with open_database() as connection:
        connection.register("numbers", pa.table({"a": [1, 2]}))
        assert connection.execute("SELECT sum(a) FROM numbers").fetchall() == [(3,)]


def test_every_connection_is_confined() -> None:
    package = Path(headrace.__file__).parent
    users = [path.relative_to(package) for path in package.rglob("*.py") if "duckdb.connect" in path.read_text()]
    assert users == [Path("storage/sandbox.py")]
