"""Invalid queries are refused when they are bound, with a message that says why and a span that says where."""

from __future__ import annotations

import pytest

from headrace.errors import Error, NotFoundError
from tests.compute.samples import pairs, plan


@pytest.mark.parametrize(("sql", "message"), pairs("refused.sql"))
def test_a_query_outside_the_limits_is_refused_with_the_reason(sql: str, message: str) -> None:
    with pytest.raises(Error) as refused:
        plan(sql)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("select a, tbnam from meters", "tbnam"),
        ("select a from meters where lenght(s) > 3", "lenght(s)"),
        ("select count(*) from meters interval(10s) sliding(11s)", "11s"),
        ("select count(*) from meters interval(1n) sliding(2n)", "2n"),
        ("select count(*) from meters interval(0s) sliding(1s)", "0s"),
        ("select count(*) from meters interval(5s, 6s) sliding(1s)", "6s"),
        ("select count(*) from meters interval(1s) fill(value, 1, 2)", "2"),
        ("select count(*) from meters session(ts, 1n)", "1n"),
        ("select count(*) from meters session(a, 1s)", "a"),
        ("select count(*) from meters state_window(a) true_for(1u)", "1u"),
        ("select count(*) from meters event_window start with a > 1 end with a > 2 true_for(2n)", "2n"),
        ("select count(*) from meters count_window(1)", "1"),
        ("select count(*) from meters count_window(10, 11)", "11"),
        ("select interp(a) from meters range(now, now + 1s) every(1n) fill(prev)", "1n"),
        ("select avg(a) + sum(s) from meters", "sum(s)"),
        ("select a from meters where b > 1 and ts > 'x'", "ts > 'x'"),
        ("select interp(a) from meters range('x') fill(prev)", "'x'"),
        ("select *, count(*) from meters interval(1m)", "*"),
    ],
)
def test_the_span_of_an_error_is_the_innermost_part_that_is_wrong(sql: str, marked: str) -> None:
    with pytest.raises(Error) as refused:
        plan(sql)
    assert refused.value.span is not None
    assert sql[refused.value.span.start : refused.value.span.end] == marked


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("select a, count(*) from meters", "add it to GROUP BY or PARTITION BY, or take first(a) or last(a)"),
        ("select a, count(*) from meters interval(1m)", "add it to PARTITION BY, or take first(a) or last(a)"),
        ("select ts, count(*) from meters interval(1m)", "the window's start is _wstart; first(ts) is that of its first row"),
        ("select count(*) from meters session(ts, -1s)", "a duration is a whole number and a unit, such as 10s"),
    ],
)
def test_a_hint_says_what_to_write_instead(sql: str, hint: str) -> None:
    with pytest.raises(Error) as refused:
        plan(sql)
    assert refused.value.hint.startswith(hint)


def test_a_long_line_is_shortened_around_the_error_and_its_mark() -> None:
    names = ", ".join(f"a{number:02}" for number in range(40))
    for sql in (f"select {names} from meters", f"select a from meters where b in ({names.replace('a', '1')}) and nosuch"):
        with pytest.raises(Error) as refused:
            plan(sql)
        refused.value.sql = sql
        _, shown, marks = str(refused.value).splitlines()[1:4]
        assert len(marks) <= len(shown) <= 124
        assert shown[marks.index("^") : len(marks)] in ("a00", "nosuch")


def test_the_hint_for_an_unknown_name_is_the_most_similar_one() -> None:
    with pytest.raises(NotFoundError) as refused:
        plan("select sit from meters")
    assert refused.value.hint == "did you mean site?"


def test_the_hint_for_a_name_like_no_other_lists_the_columns() -> None:
    with pytest.raises(NotFoundError) as refused:
        plan("select xyzzy from meters")
    assert refused.value.hint.startswith("the columns are ts, ")
    with pytest.raises(NotFoundError) as refused:
        plan(f"select xyzzy from (select {', '.join(f'site as a{number}' for number in range(40))} from meters)")
    assert refused.value.hint == f"the columns are {', '.join(f'a{number}' for number in range(10))}, …"
