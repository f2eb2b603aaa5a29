"""Projects: definitions that are planned and applied, and their tests."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import Error

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
TABLES = "CREATE DATABASE plant;\nCREATE TABLE plant.boiler (ts TIMESTAMP, t DOUBLE);\n"
STREAM = (
    "CREATE STREAM plant.averages FILL_HISTORY 1 INTO plant.minutes AS\n"
    "  SELECT _wstart AS ts, {} AS t FROM plant.boiler INTERVAL(1m);\n"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a stream and, in the other dialect, a continuous query and a pipe."""
    folder = tmp_path / "definitions"
    folder.mkdir()
    # Files are read by name, and applied by kind.
    (folder / "1.sql").write_text(STREAM.format("avg(t)"))
    (folder / "2.sql").write_text(TABLES)
    (folder / "3.sql").write_text(
        "-- dialect: iotdb\nCREATE DATABASE root.hall;\nCREATE TIMESERIES root.hall.d1.s DOUBLE;\n"
        "CREATE CQ hourly RESAMPLE EVERY 1h BEGIN SELECT sum(s) INTO root.hall.sums(s) FROM root.hall.d1 GROUP BY (1h) END;\n"
        "CREATE PIPE away WITH SINK ('sink'='do-nothing-sink');\n"
    )
    return folder


def run(*arguments: str | Path, code: int = 0) -> str:
    """Run a command and return its output."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if isinstance(result.exception, Error):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def actions(project: Path) -> dict[str, str]:
    """Return what would be done with each object."""
    return {change["name"]: change["action"] for change in json.loads(run("plan", project, "--json"))}


def test_definitions_are_created_once(home: Path, project: Path) -> None:
    assert "7 to create, 0 to replace, 0 unchanged" in run("plan", project)
    assert not (home / "tables" / "plant").exists()
    applied = run("apply", project, "--yes")
    created = [line.removeprefix("created ") for line in applied.splitlines() if line.startswith("created ")]
    assert created == [
        "database plant",
        "database root.hall",
        "table plant.boiler",
        "timeseries root.hall.d1",
        "stream plant.averages",
        "continuous query hourly",
        "pipe away",
    ]
    assert set(actions(project).values()) == {"keep"}
    assert "0 to create, 0 to replace, 7 unchanged" in run("apply", project)
    run("plan", project, "--check")


def test_what_differs_is_shown_and_replaced(home: Path, project: Path) -> None:
    run("apply", project, "--yes")
    (project / "1.sql").write_text("USE plant;\n" + STREAM.format("max(t)").replace("plant.", "", 1))
    third = project / "3.sql"
    third.write_text(third.read_text().replace("EVERY 1h", "EVERY 2h"))
    changed = {"plant.averages": "replace", "hourly": "replace"}
    assert {name: action for name, action in actions(project).items() if action != "keep"} == changed
    shown = run("plan", project, "--check", code=1)
    assert "~ stream plant.averages" in shown
    assert "-   SELECT _wstart AS ts, avg(t) AS t FROM plant.boiler INTERVAL(1m)" in shown
    assert "+   SELECT _wstart AS ts, max(t) AS t FROM plant.boiler INTERVAL(1m)" in shown
    assert "it is dropped and created again" in shown
    run("apply", project, "--yes")
    assert set(actions(project).values()) == {"keep"}
    with headrace.connect(home) as connection:
        assert "max(t)" in connection.execute("SHOW CREATE STREAM plant.averages").fetchall()[0][1]


def test_only_prune_drops_what_no_file_defines(home: Path, project: Path) -> None:
    run("apply", project, "--yes")
    with headrace.connect(home) as connection:
        connection.execute(
            "CREATE STREAM plant.other INTO plant.o AS SELECT _wstart AS ts, count(*) AS n FROM plant.boiler INTERVAL(1h)"
        )
    assert actions(project)["plant.other"] == "extra"
    assert "1 in no file (`apply --prune` drops them)" in run("apply", project)
    assert "dropped" not in run("apply", project, "--yes")
    run("apply", project, "--yes", "--prune")
    assert "plant.other" not in actions(project)


def test_columns_of_tables_are_compared(home: Path, project: Path) -> None:
    assert home
    run("apply", project, "--yes")
    (project / "2.sql").write_text(TABLES.replace("t DOUBLE", "t DOUBLE, p INT"))
    assert "column p INT is missing: ALTER the table" in run("plan", project)
    assert actions(project)["plant.boiler"] == "differ"


def test_an_error_has_its_place_and_stops(home: Path, project: Path) -> None:
    run("apply", project / "2.sql", "--yes")
    (project / "4.sql").write_text(STREAM.format("avg(nope)").replace("averages", "wrong").replace("minutes", "w"))
    with pytest.raises(Error, match=r"4\.sql:1: .*nope"):
        run("plan", project)
    (project / "4.sql").write_text("DROP STREAM plant.averages")
    with pytest.raises(Error, match="a definition creates a database"):
        run("plan", project)
    assert home


def test_a_new_project_passes_its_tests(tmp_path: Path) -> None:
    run("new", tmp_path / "plant")
    assert (tmp_path / "plant" / ".github" / "workflows" / "test.yml").exists()
    report = tmp_path / "junit.xml"
    passed = run("test", tmp_path / "plant", "--junit", report)
    assert "2 passed, 0 failed" in passed
    assert ElementTree.parse(report).getroot().attrib == {"name": "headrace", "tests": "2", "failures": "0"}
    with pytest.raises(Error, match="is not empty"):
        run("new", tmp_path / "plant")


def test_a_test_that_fails_shows_what_differs(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text(
        "name: rows\nsteps:\n  - sql: CREATE DATABASE d; CREATE TABLE d.t (ts TIMESTAMP, v INT)\n"
        "  - insert: {d.t: [{ts: 2026-01-01 00:00:00, v: 1}, {ts: 2026-01-01 00:00:01, v: 2}]}\n"
        "  - expect: {query: 'SELECT ts, v FROM d.t ORDER BY ts', rows: [['2026-01-01 00:00:00', 1], ['2026-01-01 00:00:01', 3]]}\n"
    )
    failed = run("test", tmp_path, code=1)
    assert "one.yml:5: the rows of SELECT ts, v FROM d.t ORDER BY ts differ (- expected, + found)" in failed
    assert "    ['2026-01-01 00:00:00', 1]\n  - ['2026-01-01 00:00:01', 3]\n  + [2026-01-01 00:00:01, 2]\n" in failed
    assert "0 passed, 1 failed" in failed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nstep: []", "steps: Field required; step: Extra inputs are not permitted"),
        ("name: a\nsteps: [{sql: x, insert: {}}]", "a step has exactly one of insert, sql and expect"),
        ("name: [", "is not valid YAML"),
        ("name: a\nnow: soon\nsteps: []", "now: 'soon' is no instant"),
    ],
)
def test_a_test_that_is_not_valid_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "one.yml").write_text(text)
    try:
        output = run("test", tmp_path, code=1)
    except Error as error:
        output = error.message
    assert message in output


def test_tests_are_chosen_by_name(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text("name: first\nsteps: []\n---\nname: second\nsteps: []\n")
    assert "1 passed, 0 failed" in run("test", tmp_path, "-k", "SECOND")
    with pytest.raises(Error, match="has no tests whose names contain 'third'"):
        run("test", tmp_path, "-k", "third")
