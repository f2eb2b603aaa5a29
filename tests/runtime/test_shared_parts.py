"""A stream in parts on two snodes, as real processes that are killed: each row counts once."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from headrace.context import Context
from headrace.model.job_parts import parts_of
from headrace.model.jobs import JobState
from headrace.streams.sources.lag import measure_counters
from tests.runtime.meters import START, Meters, readings
from tests.runtime.test_snode import context, settings, start, until
from tests.streams.environment import MICRO_BATCH_FAILPOINTS
from tests.support.drawing import SEED
from tests.support.jobs import Job

__all__ = ["context", "settings", "start"]

NAMES: Final = [f"m{number}" for number in range(8)]
COMMITS: Final = 12


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.drawn(3)
@pytest.mark.timeout(600)
def test_each_row_counts_once_whichever_snode_of_the_parts_is_killed(context: Context, start: Callable[..., Job]) -> None:
    random_ = random.Random(SEED)
    meters = Meters.create(context, NAMES)
    context.catalog.members.create(2, "default")
    meters.write(readings(200, names=NAMES))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0 PARTITIONS 2")

    def owners() -> list[str]:
        return [part.definition.snode for part in parts_of(context.catalog.jobs.whole(stream))]

    def belong_to(snode: str) -> bool:
        return owners() == [snode, snode]

    def is_complete() -> bool:
        return meters.results() == meters.expected()

    def is_complete_or_dead(job: Job) -> bool:
        return job.process.poll() is not None or is_complete()

    assert owners() == ["default", "snode2"], "each begins on an snode of its own"
    snodes = {name: start("snode", "--snode", name) for name in owners()}
    until(is_complete, "the history is not filled", tuple(snodes.values()))
    parts = parts_of(context.catalog.jobs.whole(stream))
    until(lambda: all(part.is_live for part in parts_of(context.catalog.jobs.whole(stream))), "a part does not go live")
    assert len(parts) == 2

    for number, killed in enumerate(random_.sample(sorted(snodes), 2), 1):
        (other,) = set(snodes) - {killed}
        moment = random_.randrange(COMMITS)
        for commit in range(COMMITS):
            first = START + number * 2_000_000 + commit * 100_000
            meters.write(readings(20, seed=number * COMMITS + commit, start=first, names=NAMES))
            if commit == moment:
                snodes[killed].signal(signal.SIGKILL)
        assert snodes[killed].ended() == -signal.SIGKILL
        until(partial(belong_to, other), "nobody takes the part of a killed snode", (snodes[other],))
        until(is_complete, "parts of the killed snode do not continue", (snodes[other],))
        # The next driver of the snode dies at a point of its own, in a micro-batch of the part that comes back.
        point = f"{random_.choice(MICRO_BATCH_FAILPOINTS)}:{random_.randint(1, 3)}:kill"
        dying = start("snode", "--snode", killed, faults=point)
        until(lambda: set(owners()) == set(snodes), "no part comes back to an snode that has none", (dying, snodes[other]))
        commit = COMMITS
        while dying.process.poll() is None and commit < 4 * COMMITS:
            first = START + number * 20_000_000 + commit * 100_000
            meters.write(readings(20, seed=1000 * number + commit, start=first, names=NAMES))
            commit += 1
            until(partial(is_complete_or_dead, dying), "parts do not follow", (dying, snodes[other]))
        assert dying.ended() == -signal.SIGKILL, point
        snodes[killed] = start("snode", "--snode", killed)
        until(is_complete, "parts do not continue", tuple(snodes.values()))
        until(lambda: set(owners()) == set(snodes), "parts are not spread again", tuple(snodes.values()))
    record = context.catalog.jobs.whole(stream)
    assert record.state is JobState.RUNNING
    counters = measure_counters(context, record)
    assert counters.rows_in == counters.rows_handled + counters.rows_pending
