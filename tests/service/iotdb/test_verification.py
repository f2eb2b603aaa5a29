"""Queries over trees are verified through the session and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import NotFoundError, NotSupportedError
from headrace.service.topics.verifications import plan_verification
from tests.service.iotdb.conftest import START

WINDOWS = "select count(s1), avg(s2) from root.plant.line1 group by ([0, 60), 20ms) fill(previous)"


@pytest.fixture
def filled(plant: headrace.Connection) -> headrace.Connection:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 5, 2.5), (21, null, 4), (25, 7, null)")
    plant.execute("insert into root.plant.line2(time, s1) values (3, 6)")
    return plant


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_query_is_verified(filled: headrace.Connection) -> None:
    verification = filled.verify(WINDOWS)
    assert (verification.equal, verification.rows, verification.windows) == (True, 3, True)
    assert filled.verify("select s1, s2 * 2 from root.plant.* where time > 1 align by device").rows == 3


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_rows_older_than_their_time_to_live_are_left_out(filled: headrace.Connection) -> None:
    filled.execute(f"insert into root.plant.line2(time, s1) values ({START}, 9)")
    filled.execute("set ttl to root.plant.line2 3600000")
    verification = filled.verify("select s1 from root.plant.*")
    assert (verification.equal, verification.rows) == (True, 3)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_functions_by_level_read_the_series_of_their_own_paths(filled: headrace.Connection) -> None:
    """The masked path of both columns is `root.*.*.s1`."""
    sql = "select sum(s1), max_time(line2.s1) from root.plant.*, root.plant group by level = 0"
    assert filled.execute(sql).fetchall() == [(18.0, 3)]
    assert filled.verify(sql).equal


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select count(s1) from root.plant.line2 having count(s9) = 0", [(1,)]),
        ("select count(s1) from root.plant.line2 having count(s9) is null", []),
        ("select count(s1) from root.plant.* having count(s2) is null align by device", [("root.plant.line2", 1)]),
        ("select count(s1) from root.plant.* having count(s2) = 0 align by device", []),
        ("select -(s1 * 0) >= 0, s1 * 0 < 0 from root.plant.line2", None),
        ("select s1 from root.plant.line1 where s1 > 0 and -s2 * 0 >= 0", []),
        ("select -s2 * 0 < 0 from root.plant.line1 where time = 1", None),
        ("select s2 from root.plant.line1 where s2 > 0 order by (s2 - 3) * 0, time limit 1", None),
    ],
)
def test_zeros_and_counts_of_nothing_are_verified(
    filled: headrace.Connection, sql: str, expected: list[tuple[object, ...]] | None
) -> None:
    rows = filled.execute(sql).fetchall()
    assert rows if expected is None else rows == expected
    assert filled.verify(sql).equal


def test_a_verification_is_explained(filled: headrace.Connection) -> None:
    session = filled.session
    lines = session.explain(plan_verification(session, WINDOWS))
    assert (lines[0], lines[-2]) == ("query on Spark", "run it again with DuckDB, and compare")
    assert lines[-1] == "needs the right to read table root.plant.devices"


def test_what_cannot_be_verified_is_refused_before_anything_runs(filled: headrace.Connection) -> None:
    for sql, clause in (
        ("select last s1 from root.plant.line1", "LAST"),
        ("select s1 into root.o(a) from root.plant.line1", "INTO"),
    ):
        with pytest.raises(NotSupportedError, match=f"verify does not support {clause}"):
            filled.verify(sql)
    with pytest.raises(NotSupportedError, match="takes a SELECT"):
        filled.verify("show devices")
    with pytest.raises(NotFoundError, match="match no series"):
        filled.verify("select s9 from root.plant.line1")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_command_line_loads_and_verifies(tmp_path: Path) -> None:
    home = ["--home", str(tmp_path / "home")]
    path = tmp_path / "line1.csv"
    path.write_text("time,speed\n1,40\n2,44\n")
    loaded = CliRunner().invoke(app, ["load", str(path), "--into", "root.plant", "--device", "root.plant.line1", *home])
    assert (loaded.exit_code, loaded.output.strip()) == (0, "2 rows in root.plant")
    verified = CliRunner().invoke(app, ["verify", "--dialect", "iotdb", "select avg(speed) from root.plant.line1", *home])
    assert verified.exit_code == 0
    assert verified.output.startswith("1 row, equal")
