"""Where errors of windows and of schedules of continuous queries point to."""

from __future__ import annotations

import pytest

import headrace
from headrace.errors import Error
from tests.service.iotdb.conftest import with_plant

SELECT = "select count(s1) from root.plant.line1"
QUERY = "select count(s1) into root.plant.o(c) from root.plant.line1"


@pytest.fixture(scope="module")
def plant(unchanged: headrace.Connection) -> headrace.Connection:
    return with_plant(unchanged)


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        (f"{SELECT} group by ([0, 10), 0s)", "0s"),
        (f"{SELECT} group by ([0, 10), 1ns, 2s)", "1ns"),
        (f"{SELECT} group by ([0, 10), 2s, 1ns)", "1ns"),
        (f"{SELECT} group by ([10, 0), 1s)", "[10, 0)"),
        (f"{SELECT} group by ([now(), now() - 1s), 1s)", "[now(), now() - 1s)"),
        (f"{SELECT} group by count(s1, 0)", "0"),
        (f"{SELECT} group by condition(s1, keep > 2)", "s1"),
        (f"{SELECT} group by ([0, 10), 1s) fill(linear, 3s)", "3s"),
        (f"create cq c resample every 1ms begin {QUERY} group by (10s) end", "1ms"),
        (f"create cq c begin {QUERY} group by (3ms) end", "3ms"),
        (f"create cq c resample every 10s range 5s begin {QUERY} end", "5s"),
        (f"create cq c resample range 5s begin {QUERY} group by (10s) end", "5s"),
        (f"create cq c resample every 10s range 0s begin {QUERY} end", "0s"),
        (f"create cq c resample every 10s range 20s, 30s begin {QUERY} end", "30s"),
        (f"create cq c begin {QUERY} group by ([0, 9), 10s) end", "[0, 9)"),
        (f"create cq c begin {QUERY} where s1 > 1 and time > 5 group by (10s) end", "time"),
    ],
)
def test_an_error_points_to_the_part_of_the_clause_that_is_wrong(plant: headrace.Connection, sql: str, marked: str) -> None:
    with pytest.raises(Error) as refused:
        plant.execute(sql)
    assert refused.value.span is not None
    assert sql[refused.value.span.start : refused.value.span.end] == marked
