"""Random statements return the same on Headrace and on a real IoTDB server.

Runs if the environment variable IOTDB is host:port of a server; IOTDB_QUERIES is the number of cases of each kind, IOTDB_SEED their
seed.
"""

from __future__ import annotations

import math
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
from tests.iotdb_comparison.explaining import Evidence, explanation
from tests.iotdb_comparison.explanations import EXPLANATIONS
from tests.iotdb_comparison.outcomes import Answer, Column, Refusal, Value
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


def test_reasons_for_numbers_hold_for_no_other_numbers() -> None:
    def reason(statement: str, difference: str) -> str | None:
        return explanation(CALL_EXPLANATIONS, statement, difference)

    skew = "value: row 0, skew(root.f.c.s2): ours {}, IoTDB's {}\n"
    assert reason("select skew(s2) from root.f.c", skew.format("nan", "-inf")) is not None
    assert reason("select skew(s2) from root.f.c", skew.format("nan", "1.25")) is None
    assert reason("select skew(s2) from root.f.c", skew.format("0.5", "-inf")) is None
    spread = "rows: ours 0, IoTDB's 1; row 0: ours None, IoTDB's (0, {})"
    assert reason("select spread(s3) from root.f.n", spread.format("-inf")) is not None
    assert reason("select spread(s3) from root.f.n", spread.format("2.5")) is None
    inverse = 'value: row 0, idwt(root.f.p.s4, "method"="db6", "layer"="{}"): ours 4.5, IoTDB\'s 4.25\n'
    assert reason("select idwt(s4, 'method'='db6', 'layer'='2') from root.f.p", inverse.format(2)) is not None
    assert reason("select idwt(s4, 'method'='db6', 'layer'='1') from root.f.p", inverse.format(1)) is None


def points(header: str, *rows: tuple[Value, ...], type_: str = "DOUBLE") -> Answer:
    return Answer((Column("Time", "TIMESTAMP"), Column(header, type_)), rows)


def reason_with(statement: str, ours: Answer, theirs: Answer, recorded: dict[str, Answer]) -> str | None:
    """Return the reason for a difference, if the server has answered further queries like this."""
    differs = difference(statement, ours, theirs)
    assert differs is not None
    ask = lambda query: recorded.get(query, Refusal(0, "not asked"))  # noqa: E731
    return explanation(CALL_EXPLANATIONS, statement, differs, Evidence(statement, ours, theirs, ask))


def test_a_comparison_is_explained_if_its_operand_is_nan() -> None:
    header, statement = "ar(root.f.c.s3)", "select ar(s3) > 0.5 from root.f.c"
    ours = points(f"{header} > 0.5", (1, True), (2, False), type_="BOOLEAN")
    theirs = points(f"{header} > 0.5", (1, True), (2, True), type_="BOOLEAN")
    operand = "select ar(s3) from root.f.c"
    assert reason_with(statement, ours, theirs, {operand: points(header, (1, 1.0), (2, math.nan))}) is not None
    assert reason_with(statement, ours, theirs, {operand: points(header, (1, 1.0), (2, 0.75))}) is None
    assert reason_with(statement, theirs, ours, {operand: points(header, (1, 1.0), (2, math.nan))}) is None


def test_a_point_of_no_rows_is_explained_if_the_server_has_none() -> None:
    header, condition = "integral(root.f.e.s2)", "from root.f.e where time >= 5"
    ours, theirs = points(header), points(header, (0, 0.0))
    rows = f"select s2 {condition}"
    assert reason_with(f"select integral(s2) {condition}", ours, theirs, {rows: points("root.f.e.s2")}) is not None
    assert reason_with(f"select integral(s2) {condition}", ours, theirs, {rows: points("root.f.e.s2", (6, 2))}) is None


def test_a_point_of_no_points_is_explained_if_the_server_has_none() -> None:
    statement, header = "select histogram(outlier(s2), 'count'='1') from root.f.d1", "histogram(outlier(root.f.d1.s2))"
    ours, theirs, inner = points(header), points(header, (0, 0)), "select outlier(s2) from root.f.d1"
    assert reason_with(statement, ours, theirs, {inner: points("outlier(root.f.d1.s2)")}) is not None
    assert reason_with(statement, ours, theirs, {inner: points("outlier(root.f.d1.s2)", (5, 2))}) is None


def test_a_result_of_several_series_is_explained_if_each_alone_is_ours() -> None:
    statement = "select segment(s4) from root.f.d1, root.f.e"
    names = [f"segment(root.f.{device}.s4)" for device in ("d1", "e")]
    columns = (Column("Time", "TIMESTAMP"), *(Column(name, "DOUBLE") for name in names))
    ours, theirs = Answer(columns, ((1, 2.5, None), (2, None, 3.5))), Answer(columns, ((1, 2.5, 2.5),))
    alone = {f"select segment(f.{device}.s4) from root": points(name) for device, name in zip(("d1", "e"), names, strict=True)}
    assert reason_with(statement, ours, theirs, alone) is None
    alone["select segment(f.d1.s4) from root"] = points(names[0], (1, 2.5))
    alone["select segment(f.e.s4) from root"] = points(names[1], (2, 3.5))
    assert reason_with(statement, ours, theirs, alone) is not None


def test_a_division_by_zero_is_explained_if_the_divisor_ends_with_it() -> None:
    statement, header = "select deconv(s3, s1) from root.f.p", "deconv(root.f.p.s3, root.f.p.s1)"
    ours, theirs = points(header, (0, -0.6), (1, 0.3)), points(header, (0, math.inf))
    for last, is_explained in ((0, True), (2, False)):
        recorded = {"select s1 from root.f.p": points("root.f.p.s1", (1, 3), (2, last))}
        assert (reason_with(statement, ours, theirs, recorded) is not None) == is_explained


def test_lost_points_of_a_sum_are_explained_if_ours_is_the_sum() -> None:
    statement, header = "select zscore(s4) + s1 from root.f.d1", "zscore(root.f.d1.s4) + root.f.d1.s1"
    ours, theirs = points(header, (1, 2.5), (2, 3.5)), points(header, (2, 3.5))
    recorded = {
        "select zscore(f.d1.s4) from root": points("zscore(root.f.d1.s4)", (1, 0.5), (2, 1.5), (3, 2.5)),
        "select f.d1.s1 from root": points("root.f.d1.s1", (1, 2), (2, 2)),
    }
    assert reason_with(statement, ours, theirs, recorded) is not None
    assert reason_with(statement, points(header, (1, 2.25), (2, 3.5)), theirs, recorded) is None


def test_a_written_number_is_explained_if_the_numbers_are_equal() -> None:
    statement = "select cast(cov(s1, s2) as TEXT) from root.f.d1"
    header = "CAST(cov(root.f.d1.s1, root.f.d1.s2) AS TEXT)"
    ours = points(header, (0, "1.23456789012345"), type_="TEXT")
    theirs = points(header, (0, "1.23456789012999"), type_="TEXT")
    for number, is_explained in ((1.23456789012999, True), (1.25, False)):
        recorded = {"select cov(s1, s2) from root.f.d1": points("cov", (0, number))}
        assert (reason_with(statement, ours, theirs, recorded) is not None) == is_explained


def test_an_estimate_is_explained_within_its_error() -> None:
    statement, header = "select median(s4, 'error'='0.1') from root.f.d1", 'median(root.f.d1.s4, "error"="0.1")'
    rows = points("root.f.d1.s4", *((at, float(at)) for at in range(20)))
    for estimate, is_explained in ((11.0, True), (15.0, False), (10.5, False)):
        theirs = points(header, (0, estimate))
        recorded = {statement: theirs, "select s4 from root.f.d1": rows}
        assert (reason_with(statement, points(header, (0, 9.0)), theirs, recorded) is not None) == is_explained


def test_a_call_without_a_missing_series_is_explained_if_the_others_are_equal() -> None:
    statement = "select consecutivewindows(s6, s4) from root.f.** align by device"
    columns = (Column("Time", "TIMESTAMP"), Column("Device", "TEXT"), Column("consecutivewindows(s6, s4)", "INT32"))
    extra = Column("consecutivewindows(s4)", "INT32")
    ours = Answer(columns, ((2, "root.f.d1", 5),))
    for value, is_explained in ((5, True), (6, False)):
        theirs = Answer((*columns[:2], extra, columns[2]), ((1, "root.f.c", 3, None), (2, "root.f.d1", None, value)))
        assert (reason_with(statement, ours, theirs, {}) is not None) == is_explained


def test_moved_values_are_explained_if_ours_are_those_without_nan() -> None:
    statement, header = "select minmax(s4) from root.f.d1", "minmax(root.f.d1.s4)"
    ours, theirs = points(header, (1, 0.0), (3, 1.0)), points(header, (1, 0.0), (2, 1.0))
    numbers = "select minmax(s4) from root.f.d1 where s4 + 0 < 1e30"
    assert reason_with(statement, ours, theirs, {numbers: ours}) is not None
    assert reason_with(statement, ours, theirs, {numbers: theirs}) is None


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
