"""What a query may not be is refused when it is bound, with a message that says why and a span that says where."""

from __future__ import annotations

import pytest

from headrace.errors import Error, NotFoundError
from tests.compute.house import pairs, plan


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
        ("select count(*) from meters interval(10s) sliding(11s)", "interval(10s) sliding(11s)"),
        ("select avg(a) + sum(s) from meters", "sum(s)"),
        ("select a from meters where b > 1 and ts > 'x'", "ts > 'x'"),
    ],
)
def test_the_span_of_an_error_is_the_innermost_part_that_is_wrong(sql: str, marked: str) -> None:
    with pytest.raises(Error) as refused:
        plan(sql)
    assert refused.value.span is not None
    assert sql[refused.value.span.start : refused.value.span.end] == marked


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFoundError) as refused:
        plan("select sit from meters")
    assert refused.value.hint == "did you mean site?"
