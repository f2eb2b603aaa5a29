"""Streams equal their queries after any sequence of writes, control by users, and faults of drivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from headrace.errors import FencedError
from headrace.history import backfill
from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import DesiredState, Replacement
from headrace.model.statements import CreateStream
from headrace.runtime.job_host import JobHost
from headrace.sql import parse
from headrace.streams import lifecycle
from headrace.streams.definition.define import StreamPlan, define, plan_recorded_stream
from tests.streams import counting
from tests.streams.effort import EXAMPLES, drawn_profiles
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, SUBTABLES, StreamEnvironment, open_profile, profile_of
from tests.streams.expected import SourceModel
from tests.streams.scenarios import ROWS, scale
from tests.streams.test_windows import DELAYS_MS, FAR, SHAPES, TRIGGERS, Stream, target_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(600, 30 * EXAMPLES))]

STEPS = 20
SEQUENCES = {"kernels": 4, "pieces": 2, "spark": 1}
"""Sequences in an ordinary run, by profile."""
MAX_STREAMS = 5
ALL_SHAPES = [shape for shapes in SHAPES.values() for shape in shapes]
SUBTABLE = st.sampled_from(sorted(SUBTABLES))
STREAM_NUMBER = st.integers(0, MAX_STREAMS - 1)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """A stream that drops nothing."""
    shape = draw(st.sampled_from(ALL_SHAPES))
    triggers = [*TRIGGERS, "continuous_window_close recalculate 600s"] if shape.clause.startswith("interval") else TRIGGERS
    watermark = 100_000 if shape.clause.startswith("count") else draw(st.sampled_from([0, 3000, 15_000]))
    return Stream(shape, draw(st.sampled_from(triggers)), watermark)


@dataclass
class Running:
    """A stream of the machine."""

    stream: Stream
    plan: StreamPlan
    is_paused: bool = False
    is_from_history: bool = False
    """Its watermark follows from the rows that were stored when it was created, so which windows are open is not compared."""


class StreamMachine(RuleBasedStateMachine):
    """Streams over `readings`, the users that write and control them, and drivers that die or lose their lease."""

    def __init__(self, home: StreamEnvironment) -> None:
        super().__init__()
        self.database = home.new_database({name: (g, 0) for name, g in SUBTABLES.items()})
        self.env = self.database.__enter__()
        self.model = SourceModel({name: (g, 0) for name, g in SUBTABLES.items()})
        self.streams: dict[int, Running] = {}
        self.epoch = 0
        self.shift = 0
        self.numbers = iter(range(1000))

    @property
    def shapes(self) -> list[Any]:
        """The queries whose event time the model follows."""
        return list(dict.fromkeys(one.stream.shape for one in self.streams.values()))

    @initialize(drawn=st.lists(streams(), min_size=2, max_size=3))
    def begin(self, drawn: list[Stream]) -> None:
        for number, stream in enumerate(map(self.adapted, drawn)):
            self.streams[number] = Running(stream, self.env.create(stream.sql(f"s{next(self.numbers)}")))

    def adapted(self, stream: Stream) -> Stream:
        """Return the stream to create when a stream was drawn."""
        return stream

    # Writes

    @rule(rows=st.lists(ROWS, min_size=1, max_size=8))
    def insert(self, rows: list[Any]) -> None:
        rows = [(name, self.shift + instant, a, b) for name, instant, a, b in rows]
        self.env.insert(rows)
        self.model.apply(("insert", rows), self.shapes)

    @rule(subtable=SUBTABLE, first=st.integers(0, 60), length=st.integers(0, 8000))
    def delete(self, subtable: str, first: int, length: int) -> None:
        cut = (subtable, self.shift + first * 500, length)
        self.env.delete(subtable, cut[1], cut[1] + length)
        self.model.apply(("delete", cut), [])

    @rule(ms=st.sampled_from([5000, 20_000, 60_000]))
    def move_on(self, ms: int) -> None:
        """Let later rows be later."""
        self.shift += ms

    @rule(ms=st.sampled_from([1000, 5000, DELAYS_MS]))
    def wait(self, ms: int) -> None:
        self.env.clock.advance(ms)

    @rule()
    def compact(self) -> None:
        self.env.tables.maintenance.compact(self.env.table)

    # Control

    @rule(number=STREAM_NUMBER)
    def pause(self, number: int) -> None:
        if number in self.streams:
            self.streams[number].is_paused = True
            self.env.catalog.jobs.set_desired(self.streams[number].plan.id, DesiredState.PAUSED)

    @rule()
    def resume(self) -> None:
        for one in self.streams.values():
            one.is_paused = False
            self.env.catalog.jobs.set_desired(one.plan.id, DesiredState.RUNNING)

    @rule(number=STREAM_NUMBER)
    def drop(self, number: int) -> None:
        one = self.streams.pop(number, None)
        if one is not None:
            self.env.catalog.jobs.drop(one.plan.id)
            self.env.settle()
            lifecycle.forget(self.env.context, one.plan.id)

    @precondition(lambda self: len(self.streams) < MAX_STREAMS)
    @rule(stream=streams())
    def create_with_history(self, stream: Stream) -> None:
        stream = self.adapted(stream)
        number = min(set(range(MAX_STREAMS)) - self.streams.keys())
        plan = self.env.create(stream.sql(f"s{next(self.numbers)}").replace(" watermark", " fill_history 1 watermark"))
        self.start_from_history(number, Running(stream, plan))

    @rule(number=STREAM_NUMBER)
    def reset(self, number: int) -> None:
        """Compute a stream again, as RESET STREAM does."""
        if number in self.streams:
            self.replace(number, self.streams[number].stream, clears=False)

    @rule(number=STREAM_NUMBER, stream=streams())
    def create_or_replace(self, number: int, stream: Stream) -> None:
        """Replace a stream by one of another query, as CREATE OR REPLACE STREAM does."""
        if number in self.streams:
            old = self.streams[number].stream
            shape = replace(old.shape, clause=stream.shape.clause, windows=stream.shape.windows, min_a=stream.shape.min_a)
            if any(shape == replace(other, more=shape.more) for other in ALL_SHAPES):
                self.replace(number, replace(stream, shape=shape), clears=True)

    @precondition(lambda self: self.streams)
    @rule(number=STREAM_NUMBER)
    def recompute(self, number: int) -> None:
        """Compute all windows of a stream again, as `headrace backfill` does."""
        one = self.streams.get(number)
        if one is not None and not one.is_paused:
            self.env.settle()
            backfill.recompute(self.env.context, one.plan.id, f"run{next(self.numbers)}", None, None)

    # Faults

    @rule()
    def restart(self) -> None:
        self.env.restart_after_failure()

    @rule(point=st.sampled_from(MICRO_BATCH_FAILPOINTS), passage=st.integers(1, 4))
    def kill(self, point: str, passage: int) -> None:
        with armed(f"{point}:{passage}:raise"):
            try:
                self.env.settle()
            except FailpointError:
                self.env.restart_after_failure()

    @rule(moves=st.booleans(), rows=st.lists(ROWS, min_size=1, max_size=4))
    def take_over(self, moves: bool, rows: list[Any]) -> None:
        """Let another driver take all streams over, or another snode that owns them, while the first one still runs."""
        self.env.settle()
        zombie, self.env.pollers = self.env.pollers, None
        assert zombie is not None
        self.epoch += 1
        if moves:
            self.change_owner()
        self.env.restart(self.epoch)
        self.env.settle()
        self.insert(rows)
        written = self.versions()
        run_zombie(zombie)
        assert self.versions() == written, "a driver that was taken over writes nothing"

    def change_owner(self) -> None:
        for one in self.streams.values():
            owner = self.env.record(one.plan).definition.snode
            assert self.env.catalog.jobs.move(one.plan.id, owner, f"snode{self.epoch}")

    def versions(self) -> list[int]:
        return [self.env.tables.version(one.plan.target) for one in self.streams.values()]

    # Comparison

    @rule(ticked=st.booleans())
    def settle(self, ticked: bool) -> None:
        self.env.settle()
        self.compare(after_delays=False)
        if ticked:
            self.env.clock.advance(DELAYS_MS)
            self.env.settle()
            self.compare(after_delays=True)

    def compare(self, *, after_delays: bool) -> None:
        for one in self.streams.values():
            assert self.env.record(one.plan).reason is None
            if not one.is_paused:
                self.compare_stream(one, after_delays=after_delays)

    def compare_stream(self, one: Running, *, after_delays: bool) -> None:
        rows, sql = target_rows(self.env, one.plan, one.stream.shape), one.stream.sql("s")
        closed_before = one.stream.closed_before
        if one.stream.trigger.startswith("continuous") and not after_delays:
            return
        if closed_before is None and (after_delays or one.stream.trigger == "at_once"):
            assert rows == self.model.results(one.stream.shape), sql
        elif one.is_from_history:
            return
        elif closed_before is None:
            assert set(self.model.results(one.stream.shape, one.stream.watermark)) <= set(rows), sql
        else:
            assert rows == self.model.results(one.stream.shape, closed_before), sql
        counting.add("states of streams, in sequences with faults")

    def teardown(self) -> None:
        """Close all windows, and compare all streams."""
        try:
            self.resume()
            self.shift = FAR
            for extra in (0, 200_000):
                rows = [(name, FAR + extra, 9, "x") for name in sorted(SUBTABLES)]
                self.env.insert(rows)
                self.model.apply(("insert", rows), self.shapes)
                self.settle(ticked=True)
            for one in self.streams.values():
                self.compare_closed(one)
        finally:
            self.database.__exit__(None, None, None)

    def replace(self, number: int, stream: Stream, *, clears: bool) -> None:
        """Let a new stream of the same name take the place of one."""
        context, record = self.env.context, self.env.record(self.streams[number].plan)
        definition = record.definition
        assert definition.target is not None
        statement = parse(stream.sql(definition.name).replace(f"into out_{definition.name}", f"into {definition.target.name}"))
        assert isinstance(statement, CreateStream)
        now, settings = context.clock.now(), context.settings
        plan = define(statement, self.env.catalog, definition.database, now=now, replaced=definition, settings=settings)
        new = plan.definition(
            created=max(context.clock.now(), definition.created + 1),
            snode=definition.snode,
            replaces=Replacement(definition.id, clears),
        )
        lifecycle.replace_stream(context, plan, new, record)
        self.env.settle()
        running = Running(stream, plan_recorded_stream(self.env.record(plan).definition, self.env.catalog, settings))
        running.is_paused = self.streams[number].is_paused
        self.start_from_history(number, running)

    def compare_closed(self, one: Running) -> None:
        """Compare the closed windows. A history also writes windows that are open, which keep this result until they close."""
        rows, closed = (
            target_rows(self.env, one.plan, one.stream.shape),
            self.model.results(one.stream.shape, one.stream.closed_before),
        )
        if not one.is_from_history:
            assert rows == closed
            return
        still_open = Counter(self.model.results(one.stream.shape)) - Counter(closed)
        earlier = Counter(rows) - Counter(closed)
        assert not Counter(closed) - Counter(rows)
        assert not Counter(row[0] for row in earlier.elements()) - Counter(row[0] for row in still_open.elements())

    def start_from_history(self, number: int, one: Running) -> None:
        """Fill the history of a new stream."""
        backfill.fill_history(self.env.context, one.plan.id)
        one.is_from_history = True
        self.streams[number] = one


def run_zombie(pollers: JobHost) -> None:
    """Let a driver go on after others have taken its streams over."""
    try:
        while pollers.poll():
            pass
    except FencedError:
        pass
    pollers.close()


@pytest.fixture(scope="module", params=drawn_profiles("machine"))
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[StreamEnvironment]:
    """An environment of each drawn profile for all sequences; each gets a new database in it."""
    with open_profile(request.param, tmp_path_factory.mktemp("machine"), spark) as env:
        yield env


@pytest.mark.drawn(2)
def test_streams_equal_their_queries_whatever_users_and_drivers_do(home: StreamEnvironment) -> None:
    class Machine(StreamMachine):
        def __init__(self) -> None:
            super().__init__(home)

    run(Machine, scale(SEQUENCES[profile_of(home)]))


def run(machine: type[StreamMachine], sequences: int) -> None:
    """Try sequences of the steps of a machine."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
