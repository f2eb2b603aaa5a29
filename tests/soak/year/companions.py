"""The processes beside the writer of a campaign: an outside reader, and the maintenance on a compressed clock."""

from __future__ import annotations

import multiprocessing
import queue
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import Synchronized
from typing import Any, Final

from deltalake import DeltaTable

import headrace
from headrace.runtime.table_maintenance import maintain
from headrace.settings import Settings
from headrace.storage.delta import history
from tests.soak.year.measures import Sample

NIGHTS: Final = 365
READ_EVERY_S: Final = 1.0
RETENTION_HOURS: Final = 20 / 3_600
"""History on the compressed clock: twice as long as the outside reader takes to read the latest rows."""
TOMBSTONES_KEPT: Final = "interval 5 seconds"
SPAWN: Final = multiprocessing.get_context("spawn")
TABLE: Final = "soak.readings"
COUNT_SQL: Final = "SELECT count(a) FROM root.soak.readings.* WHERE time > {ms}"
LATEST_MS: Final = 10_000
MISSING: Final = re.compile("data file .* is missing|No such file|not found")


class Companion:
    """A process that repeats something until it is stopped, and sends what it measures, or why it failed."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self.commits: Synchronized[int] = SPAWN.Value("q", 0)
        self.failures: Counter[str] = Counter()
        self.done = 0
        self._messages: Queue[Sample | str] = SPAWN.Queue()
        self._process = SPAWN.Process(target=target, args=(*arguments, self.commits, self._messages), daemon=True)
        self._process.start()

    def samples(self) -> list[Sample]:
        """Return what was measured since the last call."""
        received = []
        with suppress(queue.Empty):
            while True:
                received.append(self._messages.get_nowait())
        self.failures.update(message for message in received if isinstance(message, str))
        samples = [message for message in received if not isinstance(message, str)]
        self.done += len(samples)
        return samples

    def stop(self) -> None:
        """End the process."""
        with self.commits.get_lock():
            self.commits.value = -1
        self._process.join(60)
        self._process.kill()


@contextmanager
def companion(target: Callable[..., None], *arguments: Any) -> Iterator[Companion]:
    """Yield a companion that runs, and stop it afterwards."""
    started = Companion(target, *arguments)
    try:
        yield started
    finally:
        started.stop()


def read_outside(
    uri: str, settings: Settings, retention_hours: float, commits: Synchronized[int], messages: Queue[Sample | str]
) -> None:
    """Open the table with delta-rs alone, follow it, and count its latest rows by a query in this process, until it is stopped.

    What takes longer than history is kept may miss a file: on the compressed clock, the first query can, which starts Spark.
    """
    followed = DeltaTable(uri)
    with headrace.connect(settings=settings, dialect="iotdb") as connection:
        while commits.value >= 0:
            read_once(uri, followed, connection, retention_hours, messages)
            time.sleep(READ_EVERY_S)


def read_once(
    uri: str, followed: DeltaTable, connection: headrace.Connection, retention_hours: float, messages: Queue[Sample | str]
) -> None:
    """Send the CPU time of each way of reading, in ms, or the error of one."""
    count = COUNT_SQL.format(ms=round(time.time() * 1000) - LATEST_MS)
    actions: dict[str, Callable[[], object]] = {
        "opening by delta-rs, CPU ms": lambda: DeltaTable(uri),
        "following by delta-rs, CPU ms": followed.update_incremental,
        "latest rows by Headrace, CPU ms": lambda: connection.execute(count).fetchall(),
    }
    for measure, action in actions.items():
        start, begun = time.process_time(), time.monotonic()
        try:
            action()
        except Exception as error:  # an outside reader meets all kinds
            if time.monotonic() - begun < retention_hours * 3_600 or not MISSING.search(str(error)):
                messages.put(f"{measure.partition(',')[0]}: {str(error).partition(chr(10))[0][:120]}")
        else:
            messages.put({measure: 1000 * (time.process_time() - start)})


def maintain_each_night(settings: Settings, total: int, commits: Synchronized[int], messages: Queue[Sample | str]) -> None:
    """Maintain all tables whenever a day's share of the commits was made."""
    nights = 0
    history.TOMBSTONES_KEPT = TOMBSTONES_KEPT  # type: ignore[misc]
    with headrace.connect(settings=settings) as connection:
        while (made := commits.value) >= 0:
            if made * NIGHTS < (nights + 1) * total:
                time.sleep(0.1)
                continue
            nights = made * NIGHTS // total
            start = time.process_time()
            maintained = {result.table for result in maintain(connection.session.context, retention_hours=RETENTION_HOURS)}
            if TABLE not in maintained:
                messages.put(f"maintenance skipped {TABLE}")
            messages.put({"maintenance, CPU ms": 1000 * (time.process_time() - start)})
