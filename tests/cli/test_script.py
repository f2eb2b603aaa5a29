"""`headrace sql --file` reports the line of an error, and `--help` describes all options."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import psutil
import pytest
import typer
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.cli.main import main
from headrace.errors import ProgrammingError
from tests.support.waiting import wait_until

PIPE_BYTES: Final = 65_536
SCRIPT = """-- USE cold;
CREATE DATABASE cold;
USE cold;

CREATE TABLE rooms (ts TIMESTAMP,
  a INT);
"""


def run_file(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a file that fails, and return the error."""
    file = tmp_path / "rooms.sql"
    file.write_text(text)
    monkeypatch.setattr("sys.argv", ["headrace", "sql", "--file", str(file), "--home", str(tmp_path / "home")])
    with pytest.raises(SystemExit):
        main()
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("added", "error"),
    [
        ("DESCRIBE rooms;\nDESCRIBE\n  nothing;", "rooms.sql, line 9: table cold.nothing does not exist"),
        ("DROP STREAM nothing;", "rooms.sql, line 7: "),
        ("\nSELECT a FRM rooms;", "rooms.sql, line 8: unexpected"),
        ("INSERT INTO rooms VALUES\n (1, 1)\n (2, 'x');", "rooms.sql, line 9: "),
    ],
)
def test_an_error_has_the_line_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], added: str, error: str
) -> None:
    assert error in run_file(tmp_path, SCRIPT + added, monkeypatch, capsys)


def test_what_a_command_writes_is_closed_to_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    statements = f"{SCRIPT} INSERT INTO rooms VALUES (1, 1)"
    monkeypatch.setattr("sys.argv", ["headrace", "sql", "--home", str(home), "--", statements])
    previous = os.umask(0o022)
    try:
        with suppress(SystemExit):
            main()
    finally:
        os.umask(previous)
    assert list(home.rglob("*.parquet"))
    assert [path for path in home.rglob("*") if path.stat().st_mode & 0o077] == []


def sql_output(*arguments: str) -> str:
    """Return what `headrace sql` prints as CSV."""
    result = CliRunner().invoke(app, ["sql", "--format", "csv", *arguments])
    assert result.exit_code == 0, result.exception
    return result.output


SERIES = "create timeseries root.plant.line1.speed with datatype=INT32; show devices"


def test_the_dialect_is_an_option_or_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "root.plant.line1" in sql_output("--home", str(tmp_path / "option"), "--dialect", "iotdb", SERIES)
    monkeypatch.setenv("HEADRACE_DIALECT", "IoTDB")
    assert "root.plant.line1" in sql_output("--home", str(tmp_path / "setting"), SERIES)
    assert "root.plant,ms" in sql_output("--home", str(tmp_path / "setting"), "--dialect", "tdengine", "SHOW DATABASES")


def test_an_unknown_dialect_is_refused_before_the_home_is_created(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sql", "--home", str(tmp_path / "home"), "--dialect", "iotbd", "SHOW DATABASES"])
    assert isinstance(result.exception, ProgrammingError)
    assert result.exception.hint == "use iotdb"
    assert not (tmp_path / "home").exists()


def commands() -> dict[str, typer.models.CommandInfo]:
    return {command.name or command.callback.__name__: command for command in app.registered_commands if command.callback}


@pytest.mark.parametrize("name", commands())
def test_help_describes_each_option_and_has_an_example(name: str) -> None:
    output = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert f"$ headrace {name}" in output
    group = typer.main.get_command(app)
    command = group.commands[name]  # type: ignore[attr-defined]
    assert command.help
    assert all(getattr(parameter, "help", None) for parameter in command.params), output


@pytest.mark.parametrize(("arguments", "code"), [(["verify", "SELECT nothing FROM nothing"], 2), (["explain", "SELECT FROM"], 1)])
def test_an_error_of_verify_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.setattr("sys.argv", ["headrace", *arguments, "--home", str(tmp_path / "home")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"headrace {headrace.__version__}\n"


def test_options_are_named_as_those_of_psql(tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_text("CREATE DATABASE a; SHOW DATABASES")
    result = CliRunner().invoke(app, ["sql", "--home", str(tmp_path / "home"), "-f", str(file), "-F", "|"])
    assert result.stdout.splitlines() == ["name|precision", "a|ms"]
    refused = CliRunner().invoke(app, ["sql", "SHOW DATABASES", "-F", "||"])
    assert isinstance(refused.exception, ProgrammingError)


def test_a_write_that_is_interrupted_is_whole(tmp_path: Path) -> None:
    query = f"SELECT repeat('x', {4 * PIPE_BYTES}) AS text"
    command = [sys.executable, "-m", "headrace.cli.main", "sql", "--home", str(tmp_path / "home"), "--format", "csv", query]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with psutil.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        wait_until(lambda: unread_bytes(process.stdout) > PIPE_BYTES // 2, "a full pipe")
        process.suspend()
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "the process to stop")
        process.resume()
        wait_until(lambda: process.status() != psutil.STATUS_STOPPED, "the process to go on")
        assert process.stdout.read() == b"text\n" + b"x" * 4 * PIPE_BYTES + b"\n"


def unread_bytes(pipe: IO[bytes]) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
