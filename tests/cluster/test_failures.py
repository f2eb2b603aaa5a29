"""A deployment whose parts die while clients write: every acknowledged row counts once, and streams equal their queries.

PostgreSQL, an S3 server, a Spark cluster and three snodes run beside each other. An ordinary run has some of the parts die;
`make campaign-failures` has all of them die again and again.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace
from headrace.context import Context
from headrace.errors import NotFoundError, OperationalError, TransientError
from headrace.runtime.living_snodes import endpoint_of
from headrace.service.remote import query_snode
from headrace.settings import Settings
from tests.cluster.conftest import Driver
from tests.cluster.spark_cluster import SparkCluster
from tests.cluster.test_spark_cluster import snode_task
from tests.soak.run import EQUAL, has_handled, outcome
from tests.soak.streams import TABLES, create_stream_sql
from tests.support.drawing import SEED, drawn
from tests.support.object_store import Server as ObjectStore
from tests.support.postgres import Server as Postgres
from tests.support.waiting import wait_until

FAILURES: Final = int(os.environ.get("HEADRACE_FAILURES", "0"))
"""How many parts die in a campaign; 0 in an ordinary run."""
PARTS: Final = ("snode", "worker", "master", "catalog", "tables")
SNODES: Final = ("default", "snode2", "snode3")
STREAMS: Final = {
    "minute": create_stream_sql("minute").replace(" INTO", " PARTITIONS 3 INTO"),
    **{name: create_stream_sql(name) for name in ("overlapping", "sessions", "chained")},
}
START_MS: Final = 1_700_000_000_000
SUBTABLES: Final = 12
COMMITS: Final = 6
"""That each client makes before a part dies, and afterwards."""
Row = tuple[int, int, int]
"""Number of the subtable, epoch milliseconds, value."""


@dataclass
class Client:
    """Writes rows of keys of its own, each commit again until it is acknowledged."""

    number: int
    execute: Callable[[str], object]
    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict)
    commits: int = 0
    now: int = START_MS

    def write(self, rows: Sequence[Row]) -> None:
        values = " ".join(f"r{number} USING readings TAGS ({number % 3}) VALUES ({ms}, {a}, 'x')" for number, ms, a in rows)

        def is_acknowledged() -> bool:
            with suppress(TransientError):
                self.execute(f"INSERT INTO {values}")
                return True
            return False

        wait_until(is_acknowledged, f"rows of client {self.number} to be acknowledged")
        self.acknowledged |= {(f"r{number}", ms): a for number, ms, a in rows}
        self.commits += 1

    def write_until(self, stop: threading.Event) -> None:
        """Write small commits and large ones, with some rows that are late."""
        random_ = random.Random(f"{SEED} {self.number} {self.commits}")
        while not stop.wait(0.05):
            rows = []
            for _ in range(random_.choice((20, 20, 20, 20, 400))):
                self.now += 2 * random_.randrange(1, 2_000)
                ms = self.now - random_.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 300_000)) + self.number
                rows.append((random_.randrange(SUBTABLES), ms, random_.randrange(6)))
            self.write(rows)


@dataclass
class Deployment:
    """What runs, and how its parts die."""

    context: Context
    cluster: SparkCluster
    catalog: Postgres
    tables: ObjectStore
    start: Callable[[str], Driver]
    random: random.Random
    drivers: dict[str, Driver] = field(default_factory=dict)

    def fail(self, part: str) -> None:
        """Have a part die, and come back."""
        began = time.monotonic()
        getattr(self, f"_fail_{part}")()
        report(f"{part} died, and was back after {time.monotonic() - began:.1f} s")

    def _fail_snode(self) -> None:
        self.drivers[self.random.choice(SNODES)].kill()
        self.restart()

    def _fail_worker(self) -> None:
        self.cluster.replace_worker(self.random.choice(self.cluster.workers))

    def _fail_master(self) -> None:
        self.cluster.kill_master()
        self._pause()
        self.cluster.start_master()

    def _fail_catalog(self) -> None:
        with self.catalog.halted(signal.SIGQUIT):
            self._pause()

    def _fail_tables(self) -> None:
        self.tables.kill()
        self._pause()
        self.tables.start()

    def _pause(self) -> None:
        time.sleep(self.random.uniform(0, 3))

    def restart(self) -> None:
        """Start the drivers that have ended, as Airflow does."""
        for name in SNODES:
            if name not in self.drivers or self.drivers[name].process.poll() is not None:
                self.drivers[name] = self.start(name)

    def execute(self, sql: str) -> None:
        """Have one of the snodes execute a statement."""
        try:
            snode = endpoint_of(self.context.catalog.snodes.get(self.random.choice(SNODES)), self.context)
        except NotFoundError as error:
            raise OperationalError("the snode has not started yet") from error
        if query_snode(snode, sql, "tdengine", "soak") is None:
            raise OperationalError("the snode cannot be reached")

    def has_settled(self, connection: headrace.Connection) -> bool:
        """Return True if all streams have handled all commits."""
        self.restart()
        with suppress(TransientError):
            records = connection.session.context.catalog.jobs.all()
            assert [str(record.reason) for record in records if record.reason is not None and not record.reason.transient] == []
            return all(has_handled(connection, record) for record in records)
        return False

    def logs(self) -> str:
        records = self.context.catalog.jobs.all()
        states = (f"{record.definition.name} {record.state} {record.offsets} {record.reason}" for record in records)
        return "\n".join([*states, *(driver.text() for driver in self.drivers.values()), self.cluster.logs()])


@pytest.fixture
def settings(settings: Settings, postgres_url: str) -> Settings:
    """Return the settings of a cluster, on which each snode has one core, and tasks compute what is not small."""
    options = {"snode_cores": 1, "lease_ms": 3_000, "kernels": "always", "wide_commit_rows": 100}
    return settings.replace({"catalog_url": postgres_url, **options})


@pytest.fixture
def deployment(
    context: Context, cluster: SparkCluster, postgres: Postgres, object_store: ObjectStore, submit: Callable[..., Driver]
) -> Deployment:
    def start(name: str) -> Driver:
        return submit(snode_task(context, name))

    return Deployment(context, cluster, postgres, object_store, start, random.Random(SEED))


def failures() -> list[str]:
    """Return the parts that die, one after the other."""
    random_ = random.Random(SEED)
    many = [part for _ in range(FAILURES) for part in random_.sample(PARTS, len(PARTS))]
    return many[:FAILURES] or drawn(PARTS, "parts of a deployment that die", 1)


@contextmanager
def writing(clients: Sequence[Client]) -> Iterator[Callable[[], None]]:
    """Have clients write, and yield what waits until each has made some more commits."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(clients)) as pool:
        running: list[Future[None]] = [pool.submit(client.write_until, stop) for client in clients]

        def await_commits() -> None:
            wanted = [client.commits + COMMITS for client in clients]

            def have_committed() -> bool:
                ended = [future.result() for future in running if future.done()]
                return not ended and all(client.commits >= count for client, count in zip(clients, wanted, strict=True))

            wait_until(have_committed, "clients to commit")

        try:
            yield await_commits
        finally:
            stop.set()
    for future in running:
        future.result()


def report(progress: str) -> None:
    """Show what a campaign has done."""
    sys.stdout.write(f"{progress}\n")
    sys.stdout.flush()


def stored_rows(context: Context) -> dict[tuple[str, int], int]:
    rows = context.tables.scan(context.catalog.tables.get("soak", "readings"))
    ms = pc.divide(rows["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000)
    keys = zip(rows["tbname"].to_pylist(), ms.to_pylist(), strict=True)
    return dict(zip(keys, rows["a"].to_pylist(), strict=True))


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.e2e
@pytest.mark.postgres
@pytest.mark.drawn(8)
@pytest.mark.timeout(max(900, 60 * FAILURES))
@pytest.mark.parametrize("settings", ["object store"], indirect=True)
def test_every_acknowledged_row_counts_once_whichever_part_dies(deployment: Deployment) -> None:
    settings = deployment.context.settings
    with headrace.connect(settings=settings) as connection:
        for sql in ("CREATE SNODE ON DNODE 2", "CREATE SNODE ON DNODE 3", "CREATE DATABASE soak", "USE soak", *TABLES):
            connection.execute(sql)
        for sql in STREAMS.values():
            connection.execute(sql)
        deployment.restart()
        clients = [Client(0, connection.execute), Client(1, deployment.execute)]

        def check() -> None:
            wait_until(lambda: deployment.has_settled(connection), "all streams to settle", details=deployment.logs)
            outcomes = {name: outcome(connection, name) for name in STREAMS}
            assert all(text.startswith(EQUAL) for text in outcomes.values()), outcomes

        for part in failures():
            with writing(clients) as await_commits:
                await_commits()
                deployment.fail(part)
                await_commits()
            check()
            report(f"{sum(client.commits for client in clients)} commits")
        last = max(client.now for client in clients) + 3_600_000
        clients[0].write([(number, last, 1) for number in range(SUBTABLES)])  # closes all windows before
        check()
        assert stored_rows(deployment.context) == clients[0].acknowledged | clients[1].acknowledged
