"""Random statements return the same on Headrace and on a real IoTDB server.

Runs if the environment variable IOTDB is host:port of a server; IOTDB_QUERIES is the number of cases of each kind, IOTDB_SEED their
seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.compute.iotdb.library import TEXT_FUNCTIONS
from headrace.library import find_class
from tests.conformance import conformance_plugins
from tests.iotdb_comparison.call_explanations import CALL_EXPLANATIONS
from tests.iotdb_comparison.call_series import call_tree
from tests.iotdb_comparison.campaign import CALLS, KINDS, Kind, Report, cases, play
from tests.iotdb_comparison.clients import HeadraceSide, IotdbSide, server_address
from tests.iotdb_comparison.comparing import difference
from tests.iotdb_comparison.explaining import explanation
from tests.iotdb_comparison.explanations import EXPLANATIONS
from tests.iotdb_comparison.outcomes import Answer, Column, Refusal
from tests.iotdb_comparison.registered import EXAMPLES, REGISTERED

SERVER = server_address()
CASES = int(os.environ.get("IOTDB_QUERIES", "30"))
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
@pytest.mark.timeout(max(300, CASES * 10))
@pytest.mark.parametrize("kind", KINDS, ids=["queries", "calls"])
def test_both_servers_answer_alike(sides: tuple[HeadraceSide, IotdbSide], kind: Kind) -> None:
    report, unexplained = Report(), list[str]()
    for result in play(SEED, range(CASES), *sides, kind):
        report.add(result, unexplained.append)
    assert report.statements >= CASES
    assert not unexplained, "\n".join(unexplained)


@pytest.mark.parametrize("kind", KINDS, ids=["queries", "calls"])
def test_a_case_depends_on_its_seed_and_number_only(kind: Kind) -> None:
    made = kind.tree(3)
    assert made.setup == kind.tree(3).setup
    every = dict(cases(3, range(40), made, kind))
    id_ = f"{kind.prefix}3/17"
    assert dict(cases(3, [17], kind.tree(3), kind)) == {id_: every[id_]}
    assert len({tuple(statements) for statements in every.values()}) == len(every)


def test_headrace_has_all_functions_that_calls_register() -> None:
    classes = {function.class_name for function in REGISTERED.values()}
    examples = {name.removeprefix(EXAMPLES) for name in classes if name.startswith(EXAMPLES)}
    assert not [name for name in examples if not hasattr(conformance_plugins, name)]
    library = {name for name in classes if not name.startswith(EXAMPLES)}
    assert not [name for name in library if name not in TEXT_FUNCTIONS and find_class(name) is None]


def test_all_functions_are_called() -> None:
    made = call_tree(1)
    text = "\n".join(statement for _, statements in cases(1, range(1500), made, CALLS) for statement in statements)
    assert not [name for name in REGISTERED if f"{name}(" not in text]


def test_reasons_for_calls_are_about_what_they_name() -> None:
    def reason(statement: str, difference: str) -> str | None:
        return explanation(CALL_EXPLANATIONS, statement, difference)

    assert reason("select fft(s4) from root.f.d1", "value: row 0, fft(root.f.d1.s4): ours 1.0, IoTDB's 2.0\n") is None
    assert reason("select sample(s4) from root.f.d1", "rows: ours 2, IoTDB's 3; row 0: ours (1, 2), IoTDB's (1, 3)") is None
    assert reason("select sample(s4), s1 from root.f.d1", "rows: ours 2, IoTDB's 3; row 0: ours (1, 2), IoTDB's (1, 3)") is not None
    assert reason("select dtw(s4, s1) from root.f.d1", "value: row 0, dtw(root.f.d1.s4): ours 1.0, IoTDB's nan\n") is not None
    refused = "status: ours 701: Illegal method.\n        IoTDB's 301: Error occurred during executing UDTF#transform(): "
    assert reason("select valuerepair(s1, 'method'='x') from root.f.d1", f"{refused}a.UDFException: Illegal method.") is not None
    assert reason("select valuerepair(s1, 'method'='x') from root.f.d1", f"{refused}a.UDFException: No values.") is None
    segments = "rows: ours 2, IoTDB's 3; row 0: ours (1, 2.5), IoTDB's (1, 3.5)"
    assert reason("select segment(s4) from root.f.d1", segments) is None
    assert reason("select segment(s4), segment(s3) from root.f.d1", segments) is not None
    assert reason("select segment(s4) from root.f.d1, root.f.d2 align by device", segments) is not None


def test_reasons_for_numbers_hold_for_no_other_numbers() -> None:
    def reason(statement: str, difference: str) -> str | None:
        return explanation(CALL_EXPLANATIONS, statement, difference)

    skew = "value: row 0, skew(root.f.c.s2): ours {}, IoTDB's {}\n"
    assert reason("select skew(s2) from root.f.c", skew.format("nan", "-inf")) is not None
    assert reason("select skew(s2) from root.f.c", skew.format("nan", "1.25")) is None
    assert reason("select skew(s2) from root.f.c", skew.format("0.5", "-inf")) is None
    more = 'value: row 1, re_sample(root.f.d2.s2, "every"="700ms") > 0.5: ours {}, IoTDB\'s {}\n'
    assert reason("select re_sample(s2, 'every'='700ms') > 0.5 from root.f.d2", more.format("False", "True")) is not None
    assert reason("select re_sample(s2, 'every'='700ms') > 0.5 from root.f.d2", more.format("True", "False")) is None
    assert reason("select mvavg(s2) > 0.5 from root.f.d2", more.format("False", "True")) is None
    spread = "rows: ours 0, IoTDB's 1; row 0: ours None, IoTDB's (0, {})"
    assert reason("select spread(s3) from root.f.n", spread.format("-inf")) is not None
    assert reason("select spread(s3) from root.f.n", spread.format("2.5")) is None
    inverse = 'value: row 0, idwt(root.f.p.s4, "method"="db6", "layer"="{}"): ours 4.5, IoTDB\'s 4.25\n'
    assert reason("select idwt(s4, 'method'='db6', 'layer'='2') from root.f.p", inverse.format(2)) is not None
    assert reason("select idwt(s4, 'method'='db6', 'layer'='1') from root.f.p", inverse.format(1)) is None


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


def test_rows_that_differ_by_rounding_are_not_the_first_that_differs() -> None:
    columns = (Column("Time", "TIMESTAMP"), Column("s", "DOUBLE"))
    ours, theirs = Answer(columns, ((1, 0.1), (2, 5.0))), Answer(columns, ((1, 0.1 + 1e-12), (2, 5.0), (3, 1.5)))
    assert difference("select s from root.d", ours, theirs) == "rows: ours 2, IoTDB's 3; row 2: ours None, IoTDB's (3, 1.5)"


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
    assert explanation(EXPLANATIONS, "select max_value(s7) from root.d", text) is not None
    assert explanation(EXPLANATIONS, "select max_value(s7) from root.d", "value: row 0") is None


def test_values_of_one_instant_are_chosen_by_level_only() -> None:
    text = "value: row 0, first_value(root.c.*.s1): ours 1, IoTDB's 4"
    assert explanation(EXPLANATIONS, "select first_value(s1), count(s1) from root.c.* group by level = 1", text) is not None
    assert explanation(EXPLANATIONS, "select first_value(s1) from root.c.*", text) is None
    counted = "value: row 0, count(root.c.*.s1): ours 1, IoTDB's 4"
    assert explanation(EXPLANATIONS, "select first_value(s1), count(s1) from root.c.* group by level = 1", counted) is None


def test_limits_of_windows_are_explained_where_the_server_miscounts_only() -> None:
    windows = "select avg(s1) from root.d.* group by ([0, 60), 7s)"
    assert explanation(EXPLANATIONS, f"{windows} order by time desc offset 3", "rows: ours 6, IoTDB's 3") is not None
    assert explanation(EXPLANATIONS, f"{windows} order by time desc limit 3", "rows: ours 6, IoTDB's 3") is None
    assert explanation(EXPLANATIONS, f"{windows} limit 3 offset 1 align by device", "rows: ours 6, IoTDB's 3") is None
    lacking = "select avg(s3) from root.d.* group by ([0, 60), 7s) limit 3 offset 1 align by device"
    assert explanation(EXPLANATIONS, lacking, "rows: ours 6, IoTDB's 3") is not None


def test_a_reason_may_be_in_an_earlier_statement_of_the_case() -> None:
    written = "select stddev(s1) into root.c.x(a) from root.d group by ([0, 60), 10s, 5s)"
    assert (
        explanation(EXPLANATIONS, f"{written}; select * from root.c.**", "value: row 2, root.c.x.a: ours 4.1, IoTDB's 4.2")
        is not None
    )
    assert explanation(EXPLANATIONS, "select * from root.c.**", "value: row 2, root.c.x.a: ours 4.1, IoTDB's 4.2") is None
