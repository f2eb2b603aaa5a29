"""Parsing and planning: from a statement's text to the stages that would run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.data import make_meters
from benchmarks.measure import interleave, timed
from benchmarks.results import Line, Wanted

SOURCE: Final = "statements_meters"
STATEMENTS_A_ROUND: Final = 20
LIMIT_SECONDS: Final = 0.010
# Each text is new, so that nothing remembers it.
STATEMENTS: Final = {
    "CREATE STREAM": """
        CREATE STREAM s{number} TRIGGER WINDOW_CLOSE WATERMARK 5s IGNORE EXPIRED 0 FILL_HISTORY 1
        INTO s{number}_result TAGS (device VARCHAR(64)) SUBTABLE (device)
        AS SELECT _wstart, COUNT(*) AS cnt, AVG(voltage) AS av, MAX(current) + {number} AS high, SPREAD(phase) AS sp
        FROM {source} WHERE voltage > 200 AND current BETWEEN 0 AND {number}
        PARTITION BY tbname device INTERVAL(1m) SLIDING(30s)""",
    "SELECT": """
        SELECT _wstart, tbname, COUNT(*) AS cnt, AVG(voltage) AS av, MAX(current) + {number} AS high, SPREAD(phase) AS sp
        FROM {source} WHERE voltage > 200 AND current BETWEEN 0 AND {number} AND groupid IN (1, 2, 3)
        PARTITION BY tbname INTERVAL(1m) SLIDING(30s) ORDER BY tbname, _wstart LIMIT 100""",
}


class Planner:
    """Plans one statement after another; nothing is carried out."""

    def __init__(self, bench: Bench, template: str) -> None:
        self.bench = bench
        self.template = template
        self.number = 0

    def __call__(self) -> Sequence[float]:
        return [seconds for _ in range(STATEMENTS_A_ROUND) for seconds in timed(self._plan)()]

    def _plan(self) -> None:
        self.number += 1
        assert self.bench.connection.session.stages(self.template.format(number=self.number, source=SOURCE))


def run(bench: Bench) -> Iterator[Line]:
    """A line for each kind of statement."""
    if not bench.has_table(SOURCE):
        make_meters(bench, SOURCE, 100)
    found = interleave({kind: Planner(bench, text) for kind, text in STATEMENTS.items()}, bench.sizes.rounds, bench.log)
    for kind, timings in found.items():
        yield Line(f"parse and plan {kind}", timings, wanted=Wanted(seconds=LIMIT_SECONDS))
