"""Streams beside many clients that write a few rows at a time: from the commit of rows to that of their result.

The doors and the driver of the streams are one process, as in an snode. The clients run in another one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from benchmarks.bench import DATABASE, Bench
from benchmarks.cases.ingest import BASIC, LINES, LOGIN, TABLETS, TREE, Clients, open_doors
from benchmarks.deltalog import DeltaLogReader, adds_rows, commit_time, has_transaction, read_entries
from benchmarks.driver import running_driver
from benchmarks.measure import MAX_WAIT_SECONDS, Timings
from benchmarks.results import Limit, Measurement
from headrace.storage.delta.commits import offset_app
from headrace.storage.delta.handles import rows_uri
from headrace.streams.kind import STREAM

LIMIT_S: Final = 0.15
CREATE: Final = """
    CREATE STREAM {name} TRIGGER AT_ONCE WATERMARK 10m INTO {name}_result TAGS (device VARCHAR(64))
    AS SELECT _wstart, COUNT(*) AS cnt, AVG(current) AS av FROM `{database}`.{table} PARTITION BY tbname device INTERVAL(10s)
"""


class FollowedTable:
    """A table to which clients write, and a stream that reads it."""

    def __init__(self, bench: Bench, database: str, table: str) -> None:
        """Create the stream of a table that exists."""
        name = f"follow_{table}"
        bench.execute(CREATE.format(name=name, database=database, table=table))
        self.source = rows_uri(bench.settings.tables_uri, bench.context.catalog.tables.get(database, table))
        self.target = bench.location(f"{name}_result")
        definition = bench.context.catalog.jobs.get(DATABASE, name, STREAM).definition
        self.app = offset_app(definition.id, definition.source_ids[0])
        self._results = DeltaLogReader(self.target)

    def wait_for_results(self) -> int:
        """Return the newest version with rows once the stream has committed its result of it."""
        version = max(version for version, actions in read_entries(self.source).items() if adds_rows(actions))
        self._results.wait(has_transaction(self.app, version), MAX_WAIT_SECONDS)
        return version

    def delays(self, first: int) -> Timings:
        """Return the seconds from each commit of rows after a version to that of their result."""
        results = [
            (action["txn"]["version"], commit_time(self.target, version))
            for version, actions in read_entries(self.target).items()
            for action in actions
            if action.get("txn", {}).get("appId") == self.app
        ]
        versions = [version for version, actions in read_entries(self.source).items() if version > first and adds_rows(actions)]
        ends = (results[bisect_left(results, (version, 0.0))][1] for version in versions)
        return Timings(tuple(end - commit_time(self.source, version) for end, version in zip(ends, versions, strict=True)))


def measure(bench: Bench, clients: Clients, database: str, table: str) -> Iterator[Measurement]:
    """Measure a stream while clients write at half of the pace that they should achieve."""
    clients.write(0)
    followed = FollowedTable(bench, database, table)
    load = clients.load
    with running_driver(bench):
        clients.write(load.target / 2 / load.rows)
        first = followed.wait_for_results()
        _, latencies = clients.write(load.target / 2 / load.rows)
        followed.wait_for_results()
    delays, answers = followed.delays(first), Timings(tuple(latencies))
    yield Measurement(
        f"{load.what}, {load.target // 2} rows/s: from the commit of rows to that of their result",
        delays,
        limit=Limit(seconds=LIMIT_S),
        note=f"95 % within {delays.quantile(0.95) * 1e3:.0f} ms; p99 of answers {answers.quantile(0.99) * 1e3:.0f} ms",
    )


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure a stream over a table that lines are written to, and one over a tree of tablets."""
    requests = bench.sizes.followed
    with open_doors(bench) as (tdengine, iotdb):
        lines = Clients(replace(LINES, requests=requests), tdengine.address, BASIC)
        yield from measure(bench, lines, DATABASE, "meters")
        tablets = Clients(replace(TABLETS, requests=requests), iotdb.address, LOGIN)
        yield from measure(bench, tablets, f"root.{TREE}", "devices")
