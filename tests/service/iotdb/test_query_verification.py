"""`verify --cq`: what executions have written, beside what DuckDB computes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import ProgrammingError
from tests.service.iotdb.conftest import START

SECOND = 1_000


@pytest.fixture
def filled(plant: headrace.Connection) -> headrace.Connection:
    rows = ", ".join(f"({START + number * SECOND}, {number % 7}, {number / 4})" for number in range(-60, 0) if number % 13)
    plant.execute(f"insert into root.plant.line1(time, s1, s2) values {rows}")
    plant.execute(f"insert into root.plant.line2(time, s1) values ({START - 20 * SECOND}, 5), ({START - 3 * SECOND}, 6)")
    return plant


def create(connection: headrace.Connection, select: str, resample: str = "every 20s range 40s") -> None:
    connection.execute(f"create cq q resample {resample} begin {select} end")
    connection.settle()
    connection.clock.advance(20 * SECOND)
    connection.settle()


@pytest.mark.parametrize(
    "select",
    [
        "select count(s1), avg(s2), max_value(s1) into root.out.d(n, mean, high) from root.plant.line1 group by (10s)",
        "select sum(s1), count(s1) into root.out.${2}(total, n) from root.plant.* group by (10s) align by device",
        "select s1, s2 into root.out.d(a, b) from root.plant.line1 where s1 > 2",
        "select avg(s2) into root.out.d(mean) from root.plant.line1 group by (4s, 10s) having avg(s2) > -5",
        "select count(s1) into root.out.d(n) from root.plant.* group by (20s), level = 1",
        "select count(s1), max_value(s2) into root.out.d(n, high) from root.plant.line1",
    ],
)
def test_what_a_query_has_written_equals_its_recomputation(filled: headrace.Connection, select: str) -> None:
    create(filled, select)
    latest = filled.verify(cq="q")
    assert latest.equal, latest.difference
    assert latest.rows >= 1
    if "group by" in select or "where" in select:
        both = filled.verify(cq="q", start="2023-11-14 22:00:00")
        assert both.equal, both.difference
        assert both.rows > latest.rows


def test_a_value_that_was_changed_is_found_with_its_source_rows(filled: headrace.Connection, tmp_path: Path) -> None:
    create(filled, "select count(s1), avg(s2) into root.out.d(n, mean) from root.plant.line1 group by (10s)")
    filled.execute(f"insert into root.out.d(time, n) values ({START - 10 * SECOND}, 77)")
    result = filled.verify(cq="q")
    assert result.difference is not None
    assert (result.difference.actual or ())[1:2] == (77,)
    assert result.difference.total == 10
    assert "execution over" in result.remark
    answer = CliRunner().invoke(app, ["verify", "--cq", "q", "--home", str(tmp_path / "home")])
    assert answer.exit_code == 1
    assert "77" in answer.stdout


def test_without_an_execution_there_is_nothing_to_verify(filled: headrace.Connection) -> None:
    filled.execute("create cq q begin select count(s1) into root.out.d(n) from root.plant.line1 group by (10s) end")
    with pytest.raises(ProgrammingError, match="no execution of q in this range is done"):
        filled.verify(cq="q")
