"""Continuous queries of one second in an snode: from the end of an interval until the ledger has its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.measure import Timings
from benchmarks.results import Limit, Measurement
from headrace.jobs.hosts import Driving
from headrace.model.continuous_queries import ExecutionState
from headrace.model.jobs import JobRecord
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.job_host import JobHost

SECONDS: Final = 20
WARM_UP_SECONDS: Final = 5
EVERY_MS: Final = 1_000
LIMIT_SECONDS: Final = 0.300
FANS: Final = (1, 10, 100)
ROWS: Final = 2 * (SECONDS + WARM_UP_SECONDS)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure the delay of a single query, and of several that are due at the same time."""
    for fan in FANS:
        name = f"root.cq{fan}"
        records = create_queries(bench, name, fan)
        bench.log(f"{fan} queries, {SECONDS} s")
        delays, missing = measure_delays(bench, records)
        for record in records:
            bench.tree.execute(f"DROP CQ {record.definition.name}")
        yield Measurement(
            f"continuous quer{'y' if fan == 1 else 'ies'} EVERY 1s: {fan}, delay",
            Timings(tuple(delays)),
            limit=Limit(seconds=LIMIT_SECONDS) if fan == 1 else None,
            note=f"{len(delays)} executions, {missing} pending at the end",
        )


def create_queries(bench: Bench, name: str, count: int) -> list[JobRecord]:
    """Create devices with rows of the next seconds, and a query over each."""
    tree = bench.tree
    if name in tree.session.context.catalog.trees.databases():
        tree.execute(f"DELETE DATABASE {name}")
    start = tree.session.context.clock.now()
    values = ", ".join(f"({start + number * EVERY_MS // 2}, {number % 97})" for number in range(ROWS))
    for number in range(count):
        tree.execute(f"INSERT INTO {name}.source.d{number}(time, v) VALUES {values}")
        tree.execute(
            f"CREATE CQ bench{count}_{number} RESAMPLE EVERY 1s BEGIN SELECT count(v), avg(v) INTO {name}_out.d{number}(n, mean) "
            f"FROM {name}.source.d{number} GROUP BY (1s) END"
        )
    return tree.session.context.catalog.jobs.all(kind=CONTINUOUS_QUERY)


def measure_delays(bench: Bench, records: Sequence[JobRecord]) -> tuple[list[float], int]:
    """Host the queries for a while; return the delay of each execution in seconds, and how many were due but not done."""
    context = bench.tree.session.context
    host = JobHost(Driving(context, "benchmark"))
    host.reconcile(records)
    begin = context.clock.now() + WARM_UP_SECONDS * EVERY_MS
    end = begin + SECONDS * EVERY_MS
    while context.clock.now() < end:
        host.poll(0.1)
        host.wait(context.settings.idle_poll_ms / 1000)
    host.close()
    ledger = [one for record in records for one in context.catalog.executions.all(record.definition.id)]
    done = [one for one in ledger if one.state is ExecutionState.DONE and begin <= one.scheduled <= end]
    due = sum(len(range(record.definition.schedule.at_or_after(begin), end + 1, EVERY_MS)) for record in records)
    return [((one.finished or end) - one.scheduled) / 1000 for one in done], due - len(done)
