"""One soak from its beginning to the comparison of all streams."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headrace
from headrace.model.jobs import JobRecord, JobState
from tests.soak.pipes import compare_pipes, has_delivered, is_pipe
from tests.soak.streams import STREAMS, STREAMS_OF_STREAMS, TABLES
from tests.soak.system import System, is_away, open_system
from tests.soak.workload import Workload
from tests.support.waiting import wait_until

ANNOUNCE_EVERY_S: Final = 30.0
EQUAL: Final = "equal"


@dataclass(frozen=True)
class Report:
    """What a soak did, and for each stream and pipe `equal`, or how it differs."""

    operations: Counter[str]
    rows: int
    streams: dict[str, str]
    pipes: dict[str, str]

    @property
    def is_equal(self) -> bool:
        """True if every stream, and the target of every pipe, equals its query."""
        return all(outcome.startswith(EQUAL) for outcome in (*self.streams.values(), *self.pipes.values()))


def soak(
    folder: Path, seed: int, *, minutes: float = 0, operations: int = 0, announce: Callable[[str], None] = lambda _: None
) -> Report:
    """Perform random operations for a time, or a number of them; then compare every stream and pipe with its query."""
    with open_system(folder) as system:
        with system.connect() as connection:
            for sql in TABLES:
                connection.execute(sql)
        workload = Workload(system, seed)
        workload.begin()
        announced = time.monotonic()
        for operation in planned(workload, minutes, operations):
            workload.perform(operation)
            if time.monotonic() - announced > ANNOUNCE_EVERY_S:
                announced = time.monotonic()
                announce(f"{workload.counts.total()} operations, {workload.rows} rows")
        workload.end()
        announce("comparing")
        streams, pipes = compare(system)
        workload.close()
        return Report(workload.counts, workload.rows, streams, pipes)


def planned(workload: Workload, minutes: float, operations: int) -> Iterator[str]:
    """Yield each operation once or more often: `operations` of them, or as many as fit a time."""
    if operations:
        yield from workload.plan(operations)
        return
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        yield from workload.plan(50)


def compare(system: System) -> tuple[dict[str, str], dict[str, str]]:
    """Wait until all streams and pipes have handled everything, and return how each compares with its query."""
    with system.connect() as connection:
        wait_until(lambda: has_settled(connection, system), "all jobs to settle", details=lambda: status(connection, system))
        streams = {name: outcome(connection, name) for name in STREAMS | STREAMS_OF_STREAMS}
        return streams, compare_pipes(connection, system.settings)


def has_settled(connection: headrace.Connection, system: System) -> bool:
    """Return True if every stream and pipe runs and has reached its source's last version."""
    system.revive_driver()
    try:
        reset_streams(connection)
        return all(has_handled(connection, record) for record in connection.session.context.catalog.jobs.all())
    except headrace.Error as error:
        if not is_away(error):
            raise
        return False


def reset_streams(connection: headrace.Connection) -> None:
    """Reset streams that cannot go on after a power cut, which has taken change files of commits that were never acknowledged."""
    for job in connection.session.context.catalog.jobs.all():
        if job.state is JobState.STOPPED and job.reason is not None and job.reason.code == "HISTORY_GONE":
            connection.execute(f"RESET STREAM {job.definition.name}")


def has_handled(connection: headrace.Connection, record: JobRecord) -> bool:
    """Return True if a stream or pipe runs and has reached its source's last version."""
    if is_pipe(record):
        return has_delivered(connection, record)
    context, source = connection.session.context, record.definition.source
    version = context.tables.version(context.catalog.tables.get(source.database, source.name))
    return record.state is JobState.RUNNING and record.source_version == version


def status(connection: headrace.Connection, system: System) -> str:
    """Return what each stream and pipe is doing, and the end of the driver's log."""
    records = connection.session.context.catalog.jobs.all()
    states = (f"{record.definition.name} {record.state} {record.offsets} {record.reason}" for record in records)
    return "\n".join([*states, system.logs()])


def outcome(connection: headrace.Connection, name: str) -> str:
    """Compare a stream with its query over all rows."""
    result = connection.verify(stream=f"soak.{name}")
    return f"{EQUAL}, {result.rows} rows" if result.equal else f"differs: {result.difference} {result.remark}"
