"""`headrace logs` and `headrace maintain`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import NotFoundError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a log of a component, and those of two tries of an snode's driver and of a stream's supervision."""
    lines = [{"timestamp": f"2024-05-01T10:00:0{n}Z", "level": "info", "event": f"batch {n}", "logger": "x"} for n in range(3)]
    files = {
        "scheduler.log": "starting\nstarted",
        "code/ada-0123456789abcdef.log": "hello",
        "airflow/dag_id=headrace_snode__default/run_id=a/task_id=driver/attempt=1.log": json.dumps({"event": "lost"}),
        "airflow/dag_id=headrace_snode__default/run_id=a/task_id=driver/attempt=2.log": "\n".join(map(json.dumps, lines)),
        "airflow/dag_id=headrace_stream__cold__hourly/run_id=b/task_id=supervise/attempt=1.log": "[1, 2]\nplain",
        "airflow/dag_id=headrace_cq__minutes/run_id=c/task_id=execute/attempt=1.log": "executed",
    }
    for number, (name, text) in enumerate(files.items()):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (number, number))
    return tmp_path


def run(home: Path, *arguments: str) -> list[str]:
    return CliRunner().invoke(app, [*arguments, "--home", str(home)], catch_exceptions=False).output.splitlines()


def test_the_latest_log_of_something_is_printed_as_text(home: Path) -> None:
    assert run(home, "logs", "scheduler") == ["starting", "started"]
    assert run(home, "logs", "default", "-n", "2") == [f"2024-05-01T10:00:0{n}Z info batch {n}" for n in (1, 2)]
    assert run(home, "logs", "cold.hourly") == ["[1, 2]", "plain"]
    assert run(home, "logs", "minutes") == ["executed"]
    assert run(home, "logs", "code/ada-0123456789abcdef.log") == ["hello"]
    assert [line.split()[0] for line in run(home, "logs")[1:]][-1] == "scheduler.log"


@pytest.mark.parametrize("name", ["nothing", "cold.nothing", "../logs/scheduler", "../logs/scheduler.log"])
def test_a_log_that_does_not_exist_is_an_error(home: Path, name: str) -> None:
    with pytest.raises(NotFoundError, match="has no log"):
        run(home, "logs", name)


def test_tables_are_compacted_and_old_files_removed(tmp_path: Path) -> None:
    with headrace.connect(tmp_path) as connection:
        connection.execute("create database d")
        connection.execute("create table d.t (ts timestamp, a int)")
        for number in range(20):
            connection.execute(f"insert into d.t values ({number}, 1)")
    header, row = run(tmp_path, "maintain", "--retention-hours", "0")
    assert header.split() == ["table", "files", "compacted", "files", "removed", "kept"]
    table, compacted, *_ = row.split()
    assert (table, int(compacted)) == ("d.t", 20)
