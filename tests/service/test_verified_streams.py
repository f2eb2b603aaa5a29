"""Streams over random writes: their targets equal their queries over the stored rows."""

from __future__ import annotations

import random
from typing import Final

import pytest

import headrace
from tests.support.drawing import is_drawn

START: Final = 1_700_000_000_000
EXACT: Final = "ignore expired 0 ignore update 0 fill_history 1"
STREAMS: Final = {
    "minutes": f"trigger at_once {EXACT} into t1 as select _wstart, _wend, count(*) n, sum(a) total, avg(b) mean, last(a) latest "
    "from readings interval(10s)",
    "slides": f"{EXACT} into t2 tags (place varchar(20)) as select _wstart, max(b) most, spread(a) wide, stddev(b) s "
    "from readings where a is not null partition by place interval(10s) sliding(4s)",
    "gaps": f"trigger at_once {EXACT} into t7 tags (name varchar(64)) as select _wstart, count(*) n, avg(b) mean, max(place) p "
    "from readings partition by tbname name interval(1s) fill(linear)",
    "closed": f"{EXACT} into t8 as select _wstart, _wend, last(a) latest from readings interval(700a) fill(prev)",
    "next": f"{EXACT} into t9 as select _wstart, last(a) latest from readings partition by place interval(1s) fill(next)",
    "constants": f"trigger at_once {EXACT} into t10 as select _wstart, tbname name, last(a) a, last(b) b from readings "
    "partition by tbname interval(2s) sliding(1s) fill(value, -1, 0.5)",
    "sessions": f"trigger at_once {EXACT} into t3 tags (name varchar(64)) as select _wstart, _wend, count(*) n, first(b) one "
    "from readings partition by tbname name session(ts, 3s)",
    "states": f"trigger at_once {EXACT} into t4 tags (name varchar(64)) as select _wstart, _wend, count(*) n, last_row(b) last "
    "from readings partition by tbname name state_window(a) true_for(1s)",
    "delayed": f"trigger max_delay 5s {EXACT} into t11 tags (name varchar(64)) as select _wstart, _wend, count(*) n, sum(a) total "
    "from readings partition by tbname name session(ts, 3s)",
    "corrected": f"trigger continuous_window_close recalculate 600s {EXACT} into t12 tags (place varchar(20)) as "
    "select _wstart, count(*) n, max(b) most from readings partition by place interval(5s)",
    "events": f"{EXACT} into t5 tags (name varchar(64)) as select _wstart, _wend, count(*) n, sum(b) total "
    "from readings partition by tbname name event_window start with a = 1 end with b > 2",
    "rows": f"trigger at_once {EXACT} into t6 tags (name varchar(64)) as select ts, a * 2 twice, upper(place) where_ "
    "from readings where a > 0 partition by tbname name",
}
ROUNDS: Final = 3
FRACTIONS: Final = ("null", "0.5", "1.25", "3")
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def random_statements(dice: random.Random) -> list[str]:
    """Return statements that insert rows, some with existing keys, and delete rows."""
    rows = [
        f"({START + dice.randrange(120) * 500}, {dice.choice(('null', '0', '1', '2'))}, {dice.choice(FRACTIONS)})"
        for _ in range(30)
    ]
    first = START + dice.randrange(100) * 500
    return [
        f"insert into dev1 values {' '.join(rows[:15])} dev2 values {' '.join(rows[15:])}",
        f"delete from {dice.choice(('dev1', 'dev2', 'readings'))} where ts between {first} and {first + dice.randrange(4_000)}",
    ]


def test_every_kind_of_stream_keeps_up_with_inserts_updates_and_deletes(readings: headrace.Connection) -> None:
    dice = random.Random(7)
    readings.execute(random_statements(dice)[0])
    for name, rest in STREAMS.items():
        readings.execute(f"create stream {name} {rest}")
    for number in range(ROUNDS):
        for statement in random_statements(dice):
            readings.execute(statement)
        readings.settle()
        assert isinstance(readings.clock, headrace.ManualClock)
        readings.clock.advance(600_000)
        readings.settle()
        # What is wrong mostly stays wrong, so a round before the last verifies only a part.
        names = [name for name in STREAMS if number + 1 == ROUNDS or is_drawn(f"{number} {name}", 4)]
        verdicts = {name: readings.verify(stream=name) for name in names}
        assert {name: verification.difference for name, verification in verdicts.items() if not verification.equal} == {}
        assert all(verification.rows for verification in verdicts.values())
