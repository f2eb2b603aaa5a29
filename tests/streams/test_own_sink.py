"""A sink as the guide to extending Headrace describes it: it commits results and positions together, and a new driver continues."""

from __future__ import annotations

from typing import Any

from headrace.context import Context
from headrace.jobs.runners import Runner
from headrace.model.jobs import JobRecord
from headrace.model.positions import Position
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.runner import Reader, StreamRunner
from headrace.streams.sinks.sink import Sink
from tests.streams.environment import StreamEnvironment

SQL = "create stream s trigger at_once into out_s as select _wstart, count(*) n from readings interval(10s)"


class Tape(Sink):
    """Keeps results in memory, which outlives its drivers."""

    def __init__(self) -> None:
        self.commits: list[tuple[Position, list[dict[str, Any]]]] = []

    def fence(self) -> None:
        """There is one driver at a time."""

    def position(self) -> Position | None:
        return self.commits[-1][0] if self.commits else None

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        if result.upserts.num_rows == 0:
            return False
        last = self.position()
        assert expected == (None if last is None else last.batch)
        self.commits.append((position, result.upserts.to_pylist()))
        return True


def test_a_stream_commits_to_a_sink_of_its_own(offline_env: StreamEnvironment) -> None:
    tape = Tape()

    def sink(_: Context, __: StreamPlan) -> Sink:
        return tape

    def runner(context: Context, record: JobRecord, reader: Reader) -> Runner:
        return StreamRunner(context, record, reader, sink=sink)

    offline_env.runner = runner
    plan = offline_env.create(SQL)
    offline_env.insert([("d0", 0, 1, None), ("d0", 1_000, 1, None)])
    offline_env.settle()
    offline_env.restart(epoch=2)
    offline_env.insert([("d0", 2_000, 1, None)])
    offline_env.settle()
    assert [[row["o1"] for row in rows] for _, rows in tape.commits] == [[2], [3]]
    assert offline_env.tables.rows(plan.target) == 0
