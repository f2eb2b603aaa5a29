"""Sessions of commits of more rows than the driver holds: late, updated and deleted rows join and part those of the target."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest

import headrace
from headrace.settings import load
from tests.support.drawing import SEED

START: Final = 1_714_521_600_000
GAP_MS: Final = 20_000
Rows = dict[tuple[str, int], int]


def write(connection: headrace.Connection, rows: Rows, draw: random.Random) -> None:
    """Write rows of an hour in one commit, some of them again, or delete a few minutes."""
    if rows and draw.random() < 0.3:
        first = START + 60_000 * draw.randrange(60)
        connection.execute(f"delete from readings where ts >= {first} and ts < {first + 300_000}")
        for key in [key for key in rows if first <= key[1] < first + 300_000]:
            del rows[key]
        return
    new = {
        (f"m{draw.randrange(4)}", START + 1000 * draw.randrange(3600)): draw.randrange(100) for _ in range(draw.randrange(8, 40))
    }
    rows.update(new)
    values = " ".join(f"{name} using readings tags ('{name[-1:]}') values ({time}, {value})" for (name, time), value in new.items())
    connection.execute(f"insert into {values}")


def sessions(rows: Rows, *, by_series: bool) -> dict[tuple[str, int], tuple[int, int]]:
    """Compute counts and sums, row by row."""
    found: dict[tuple[str, int], list[int]] = {}
    key, last = ("", 0), ("", -(2**62))
    for name, time in sorted(rows, key=lambda row: (row[0] if by_series else "", row[1])):
        group = name if by_series else ""
        if last[0] != group or time - last[1] > GAP_MS:
            key = (group, time)
        found.setdefault(key, []).append(rows[name, time])
        last = (group, time)
    return {key: (len(values), sum(values)) for key, values in found.items()}


@pytest.mark.parametrize("driver_rows", [7, 500_000], ids=["large", "small"])
@pytest.mark.parametrize("by_series", [True, False], ids=["by-series", "together"])
@pytest.mark.parametrize("number", range(2))
def test_sessions_that_rows_join_or_part_leave_nothing_behind(
    tmp_path: Path, number: int, by_series: bool, driver_rows: int
) -> None:
    draw, rows = random.Random(f"{SEED} {number} {by_series}"), Rows()
    with headrace.connect(settings=load(home=tmp_path / "home", driver_rows=driver_rows)) as connection:
        connection.execute("create database d")
        connection.execute("use d")
        connection.execute("create stable readings (ts timestamp, v int) tags (number varchar(5))")
        write(connection, rows, draw)
        tags, partition = ("tags (grp varchar(9))", "partition by tbname grp") if by_series else ("", "")
        connection.execute(
            f"create stream s trigger at_once ignore expired 0 ignore update 0 fill_history 1 into out1 {tags} as "
            f"select _wstart ws, count(*) n, sum(v) total from readings {partition} session(ts, 20s)"
        )
        connection.settle()
        for _ in range(5):
            write(connection, rows, draw)
            connection.settle()
            group = "grp" if by_series else "''"
            found: list[Any] = connection.execute(f"select {group}, cast(ws as bigint), n, total from out1").fetchall()
            assert {(row[0], row[1]): (row[2], row[3]) for row in found} == sessions(rows, by_series=by_series)
