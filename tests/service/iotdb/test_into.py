"""SELECT INTO: which columns go where, what is created, and which mappings are refused."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.errors import ProgrammingError, TypeMismatchError


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.fixture
def filled(plant: headrace.Connection) -> headrace.Connection:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 1, 1.5), (2, 2, null), (4, 4, 4.5)")
    plant.execute("insert into root.plant.line2(time, s1) values (1, 10), (3, 30)")
    return plant


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select s1, s2 into root.x.d(t1) from root.plant.line1", "the number of source columns and the number of target paths"),
        ("select s1, s2 into root.x.d(t1), root.x.d(t1) from root.plant.line1", "target paths in into clause should be different"),
        ("select s1 into root.::.x(t1) from root.plant.line1", "placeholder `::` can only be used at the end of the path"),
        ("select s1 into root.x_${9}(t1) from root.plant.line1", "less than the length of queried path prefix"),
        ("select count(s1) into root.x.d(::) from root.plant.line1", "placeholders can only be used in raw time series"),
        ("select s1 into root.x.d(t1) from root.plant.line1 slimit 1", "slimit clauses are not supported"),
        (
            "select s1, s2 into aligned root.x.d(a), root.x.d(b) from root.plant.line1",
            "alignment property must be the same for the same device",
        ),
        ("select s1 into root.x.a(t) from root.plant.* align by device", "source devices and the number of target devices"),
    ],
)
def test_a_mapping_that_does_not_correspond_is_refused(plant: headrace.Connection, sql: str, message: str) -> None:
    with pytest.raises(ProgrammingError, match="select into: ") as refused:
        plant.execute(sql)
    assert message in str(refused.value)
    assert fetch(plant, "show devices root.x.**") == []


def test_a_target_of_a_narrower_type_is_refused(plant: headrace.Connection) -> None:
    with pytest.raises(TypeMismatchError, match=r"target path \(root.plant.line1.s1\[INT32\]\) is not compatible"):
        plant.execute("select s2 into root.plant.line1(s1) from root.plant.line1")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_columns_are_copied_by_placeholders(filled: headrace.Connection) -> None:
    written = fetch(filled, "select s1 into root.copy_${1}.${2}(::) from root.plant.*")
    assert sorted(written) == [
        ("root.plant.line1.s1", "root.copy_plant.line1.s1", 3),
        ("root.plant.line2.s1", "root.copy_plant.line2.s1", 2),
    ]
    types = {row[0]: row[3] for row in fetch(filled, "show timeseries root.copy_plant.**")}
    assert types == {"root.copy_plant.line1.s1": "INT32", "root.copy_plant.line2.s1": "INT32"}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_writing_twice_changes_nothing(filled: headrace.Connection) -> None:
    sql = "select count(s1), avg(s2) into root.agg.line1(n, mean) from root.plant.line1 group by ([1, 5), 2ms)"
    assert fetch(filled, sql) == fetch(filled, sql)
    rows = [row[1:] for row in fetch(filled, "select n, mean from root.agg.line1")]
    assert rows == [(2, 1.5), (1, 4.5)]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_result_by_device_goes_to_a_device_each(filled: headrace.Connection) -> None:
    written = fetch(filled, "select max_value(s1) into root.top.${2}(best) from root.plant.* align by device")
    assert written == [
        ("root.plant.line1", "max_value(s1)", "root.top.line1.best", 1),
        ("root.plant.line2", "max_value(s1)", "root.top.line2.best", 1),
    ]
    assert [row[1:] for row in fetch(filled, "select best from root.top.line1, root.top.line2")] == [(4, 30)]


def test_what_is_filled_is_written_as_it_is_returned(connection: headrace.Connection) -> None:
    """The rows of three devices are joined by time, and FILL goes by their order."""
    for device, step in (("d1", 3), ("d2", 4), ("d3", 5)):
        rows = ", ".join(f"({time}, {time}.5)" for time in range(0, 20, step))
        connection.execute(f"insert into root.p.{device}(time, v) values {rows}")
    for fill in ("previous", "linear"):
        query = f"from root.p.* fill({fill})"
        connection.execute(f"select v into root.q.{fill}(a, b, c) {query}")
        written = connection.execute(f"select a, b, c from root.q.{fill}").fetchall()
        assert written == connection.execute(f"select v {query}").fetchall()
