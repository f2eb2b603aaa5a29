"""Parsing and planning, from a statement's text to its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.data import create_meters
from benchmarks.measure import interleave, time_call
from benchmarks.results import Limit, Measurement

SOURCE: Final = "statements_meters"
STATEMENTS_PER_ROUND: Final = 20
LIMIT_SECONDS: Final = 0.010
# Each text is unique, so caches do not help.
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
    """Plans statements without running them."""

    def __init__(self, bench: Bench, template: str) -> None:
        self.bench = bench
        self.template = template
        self.number = 0

    def __call__(self) -> Sequence[float]:
        return [seconds for _ in range(STATEMENTS_PER_ROUND) for seconds in time_call(self._plan)()]

    def _plan(self) -> None:
        self.number += 1
        assert self.bench.connection.session.stages(self.template.format(number=self.number, source=SOURCE))


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each kind of statement."""
    if not bench.has_table(SOURCE):
        create_meters(bench, SOURCE, 100)
    timings_by_kind = interleave({kind: Planner(bench, text) for kind, text in STATEMENTS.items()}, bench.sizes.rounds, bench.log)
    for kind, timings in timings_by_kind.items():
        yield Measurement(f"parse and plan {kind}", timings, limit=Limit(seconds=LIMIT_SECONDS))
