"""Random statements return the same on Headrace and on a real IoTDB server.

Runs if the environment variable IOTDB is host:port of a server; IOTDB_QUERIES is the number of cases, IOTDB_SEED their seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.iotdb_comparison.campaign import Report, cases, play
from tests.iotdb_comparison.clients import HeadraceSide, IotdbSide, server_address
from tests.iotdb_comparison.comparing import difference
from tests.iotdb_comparison.explanations import explanation
from tests.iotdb_comparison.outcomes import Answer, Column, Refusal
from tests.iotdb_comparison.trees import tree

SERVER = server_address()
QUERIES = int(os.environ.get("IOTDB_QUERIES", "30"))
SEED = int(os.environ.get("IOTDB_SEED", "1"))


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[HeadraceSide, IotdbSide]]:
    assert SERVER is not None
    ours, theirs = HeadraceSide(tmp_path / "home"), IotdbSide(*SERVER)
    yield ours, theirs
    theirs.close()
    ours.close()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(SERVER is None, reason="IOTDB is not set")
@pytest.mark.timeout(max(300, QUERIES * 10))
def test_both_servers_answer_alike(sides: tuple[HeadraceSide, IotdbSide]) -> None:
    report, unexplained = Report(), list[str]()
    for result in play(SEED, range(QUERIES), *sides):
        report.add(result, unexplained.append)
    assert report.statements >= QUERIES
    assert not unexplained, "\n".join(unexplained)


def test_a_case_depends_on_its_seed_and_number_only() -> None:
    made = tree(3)
    every = dict(cases(3, range(40), made))
    assert dict(cases(3, [17], tree(3))) == {"3/17": every["3/17"]}
    assert len({tuple(statements) for statements in every.values()}) == len(every)


def test_answers_differ_by_name_type_row_and_value() -> None:
    answer = Answer((Column("Time", "TIMESTAMP"), Column("s", "DOUBLE")), ((1, 0.1), (2, None)))
    close = Answer(answer.columns, ((1, 0.1 + 1e-12), (2, None)))
    assert difference("select s from root.d", close, answer) is None
    for other, what in (
        (Answer((Column("Time", "TIMESTAMP"), Column("t", "DOUBLE")), answer.rows), "names"),
        (Answer((Column("Time", "TIMESTAMP"), Column("s", "FLOAT")), answer.rows), "types"),
        (Answer(answer.columns, answer.rows[:1]), "rows"),
        (Answer(answer.columns, ((1, 0.2), (2, None))), "value"),
        (Answer(answer.columns, ((1, 0.1), (2, 0.0))), "value"),
        (Refusal(701, "no"), "refused"),
    ):
        assert str(difference("select s from root.d", other, answer)).startswith(what)
    assert str(difference("select s from root.d", Refusal(700, "no"), Refusal(701, "no"))).startswith("status")


def test_a_double_as_text_may_differ_in_its_last_digit() -> None:
    columns = (Column("s", "TEXT"),)

    def differ(ours: str, theirs: str) -> bool:
        return difference("select s from root.d", Answer(columns, ((ours,),)), Answer(columns, ((theirs,),))) is not None

    assert not differ("2.7182818284590455", "2.718281828459045")
    assert differ("2.7182818284590", "2.7182818284591")
    assert differ("1.234567890123E10", "12345678901.23")
    assert differ("2.5", "2.50")


def test_latest_values_are_compared_in_any_order() -> None:
    columns = (Column("Timeseries", "TEXT"),)
    forth, back = Answer(columns, (("a",), ("b",))), Answer(columns, (("b",), ("a",)))
    assert difference("select last * from root.**", forth, back) is None
    assert difference("select last * from root.** order by timeseries", forth, back) is not None


def test_a_known_fault_of_the_server_is_a_reason() -> None:
    text = 'status: ours 701: no\n        IoTDB\'s 301: Cannot invoke "X.y()" because "this.x" is null'
    assert explanation("select max_value(s7) from root.d", text) is not None
    assert explanation("select max_value(s7) from root.d", "value: row 0") is None


def test_values_of_one_instant_are_chosen_by_level_only() -> None:
    text = "value: row 0, first_value(root.c.*.s1): ours 1, IoTDB's 4"
    assert explanation("select first_value(s1), count(s1) from root.c.* group by level = 1", text) is not None
    assert explanation("select first_value(s1) from root.c.*", text) is None
    counted = "value: row 0, count(root.c.*.s1): ours 1, IoTDB's 4"
    assert explanation("select first_value(s1), count(s1) from root.c.* group by level = 1", counted) is None


def test_limits_of_windows_are_explained_where_the_server_miscounts_only() -> None:
    windows = "select avg(s1) from root.d.* group by ([0, 60), 7s)"
    assert explanation(f"{windows} order by time desc offset 3", "rows: ours 6, IoTDB's 3") is not None
    assert explanation(f"{windows} order by time desc limit 3", "rows: ours 6, IoTDB's 3") is None
    assert explanation(f"{windows} limit 3 offset 1 align by device", "rows: ours 6, IoTDB's 3") is None
    lacking = "select avg(s3) from root.d.* group by ([0, 60), 7s) limit 3 offset 1 align by device"
    assert explanation(lacking, "rows: ours 6, IoTDB's 3") is not None


def test_a_reason_may_be_in_an_earlier_statement_of_the_case() -> None:
    written = "select stddev(s1) into root.c.x(a) from root.d group by ([0, 60), 10s, 5s)"
    assert explanation(f"{written}; select * from root.c.**", "value: row 2, root.c.x.a: ours 4.1, IoTDB's 4.2") is not None
    assert explanation("select * from root.c.**", "value: row 2, root.c.x.a: ours 4.1, IoTDB's 4.2") is None
