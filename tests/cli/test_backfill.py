"""`headrace backfill`, and what other commands say of continuous queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.cli.completion import SqlCompleter
from headrace.cli.system import describe_jobs
from headrace.errors import Error, NotFoundError, ProgrammingError
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.supervision import read_snapshot
from tests.cli.terminal import Terminal

HOUR = 3_600_000
START = 1_700_000_000_000 - 1_700_000_000_000 % HOUR


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Create a home with a query that was created a day ago, and has not been executed."""
    folder = tmp_path / "home"
    with headrace.connect(folder, dialect="iotdb", clock=headrace.ManualClock(START)) as connection:
        connection.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
        connection.execute(f"insert into root.plant.line1(time, s1) values ({START - 1}, 3), ({START}, 4)")
        body = "begin select count(s1) into root.agg.line1(c) from root.plant.line1 group by (1h) end"
        connection.execute(f"create cq `hour by hour` {body}")
        connection.execute(f"create cq hourly {body.replace('agg', 'other')}")
    return folder


@pytest.fixture
def connection(home: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(home, dialect="iotdb") as opened:
        yield opened


def run(home: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--home", str(home)])
    if isinstance(result.exception, Error):
        raise result.exception
    return result.output


def test_a_backfill_of_a_query_shows_its_progress(home: Path) -> None:
    terminal = Terminal(["backfill", "--cq", "hourly", "--from", str(START - HOUR), "--to", str(START + HOUR)], home)
    try:
        terminal.expect("backfilling hourly")
        terminal.expect("2/2")
        terminal.expect("2 intervals computed")
        assert terminal.wait() == 0
    finally:
        terminal.close()
    with headrace.connect(home, dialect="iotdb") as connection:
        assert connection.execute("select count(c) from root.other.line1").fetchall() == [(2,)]


def test_explain_runs_nothing(home: Path) -> None:
    output = run(home, "backfill", "--cq", "hour by hour", "--from", str(START), "--to", str(START + 2 * HOUR), "--explain")
    assert output.startswith("compute 2 intervals of continuous query hour by hour again, from 2023-11-14 22:00:00+00:00, before")
    assert "needs the right to operate continuous query hour by hour" in output
    with headrace.connect(home, dialect="iotdb") as connection:
        catalog = connection.session.context.catalog
        job = catalog.jobs.get("", "hour by hour", CONTINUOUS_QUERY)
        assert catalog.executions.all(job.definition.id) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), ProgrammingError, "either a stream or a continuous query"),
        (("--stream", "cold.hourly", "--cq", "hourly"), ProgrammingError, "either a stream or a continuous query"),
        (("--cq", "hourly", "--chunk-rows", "5"), ProgrammingError, "cannot be combined"),
        (("--cq", "hourli"), NotFoundError, "CQ hourli doesn't exist"),
    ],
)
def test_wrong_arguments_are_refused(home: Path, arguments: tuple[str, ...], error: type[Error], message: str) -> None:
    with pytest.raises(error, match=message) as refused:
        run(home, "backfill", *arguments)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("word", "expected"),
    [("hou", ["`hour by hour`", "hourly"]), ("hourl", ["hourly"]), ("CONT", ["CONTAINS", "CONTINUOUS"]), ("ag", [])],
)
def test_the_shell_completes_names_of_queries(connection: headrace.Connection, word: str, expected: list[str]) -> None:
    candidates = SqlCompleter(connection.session).find_candidates(word, f"drop cq {word}")
    assert [candidate for candidate in candidates if "agg" not in candidate] == expected


def test_the_tdengine_dialect_does_not_complete_them(home: Path) -> None:
    with headrace.connect(home, dialect="tdengine") as connection:
        assert SqlCompleter(connection.session).find_candidates("root.hou", "root.hou") == []


def test_doctor_counts_streams_and_queries(home: Path) -> None:
    assert "1 databases, 0 streams, 2 continuous queries" in run(home, "doctor")


def test_status_lists_queries_with_lag_and_why_they_failed(connection: headrace.Connection) -> None:
    catalog = connection.session.context.catalog
    definition = catalog.jobs.get("", "hourly", CONTINUOUS_QUERY).definition
    claims = [catalog.executions.claim(definition.id, definition.schedule, START + n * HOUR, "test") for n in range(3)]
    for claimed in claims[:2]:
        catalog.executions.finish(claimed, 12_000)
    catalog.executions.fail(claims[2], "no space left")
    assert describe_jobs(read_snapshot(catalog, START + 3 * HOUR + 250), catalog.executions.histories(), 1_000) == [
        ("hour by hour", "continuous query", "RUNNING", f"{3 * HOUR + 250} ms", "–", "0", ""),
        ("hourly", "continuous query", "RUNNING", f"{HOUR + 250} ms", "–", "24,000", "attempt 1 failed: no space left"),
    ]
