"""Any history of a continuous query leaves in its target what its executions, one after the other, have computed.

A model executes each range in plain Python. Interruptions do not appear in it: they must make no difference. Some queries call an
aggregate of a user.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import Error
from headrace.model import failpoints
from headrace.model.jobs import JobDefinition
from headrace.queries import executions
from headrace.queries.kind import CONTINUOUS_QUERY
from tests.service.iotdb.conftest import START
from tests.streams.effort import EXAMPLES
from tests.streams.scenarios import scale

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.timeout(max(600, 5 * EXAMPLES))]
SECOND: Final = 1_000
RUNS: Final = count()
"""Numbers of recomputations: each has a holder of its own, since what a holder has done it does not repeat."""
INSTANTS: Final = st.integers(-25, 40)
CODE: Final = """
import pyarrow.compute as pc
from headrace.udf import UDAF, Type

class Squares(UDAF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)

    def create_state(self):
        return []

    def add_input(self, state, columns, bit_map):
        state.append(pc.sum(pc.power(columns[0].array, 2)).as_py())

    def combine_state(self, state, other):
        state.extend(other)

    def output_final(self, state, result_value):
        result_value.set(float(sum(state)) if state else None)
"""
"""The sum of squares; no value for a window without rows."""
PLACES: Final = ("queries.execution.claimed", "storage.commit", "storage.committed", "queries.execution.written")

Rows = dict[int, int]


@dataclass(frozen=True)
class Shape:
    """A continuous query, lengths in seconds: sums of windows of `step`, or the values themselves if it is 0.

    With `squares`, a user's aggregate sums the squares of the values.
    """

    every: int
    start: int
    end: int
    step: int
    policy: str
    squares: bool

    @property
    def statement(self) -> str:
        aggregate = "squares(v)" if self.squares else "sum(v)"
        column, grouping = (aggregate, f"group by ({self.step}s)") if self.step else ("v", "")
        return (
            f"create cq q resample every {self.every}s range {self.start}s, {self.end}s timeout policy {self.policy} "
            f"begin select {column} into root.out.d(v) from root.src.d {grouping} end"
        )

    def execute(self, at: int, source: Rows, target: Rows) -> None:
        """Replace what the target has at the instants that the range of an execution writes to."""
        first, end = at - self.start, at - self.end
        for window in range(first, end, self.step or 1):
            inside = [source[time] for time in range(window, min(window + (self.step or 1), end)) if time in source]
            target.pop(window, None)
            if inside:
                target[window] = sum(value**2 for value in inside) if self.squares and self.step else sum(inside)


@st.composite
def shapes(draw: st.DrawFn, *, squares: bool) -> Shape:
    every = draw(st.integers(2, 9))
    end = draw(st.integers(0, 4))
    start = draw(st.integers(max(every, end + 1), 15))
    step, policy = draw(st.sampled_from((0, 2, 3, every))), draw(st.sampled_from(("BLOCKED", "DISCARD")))
    return Shape(every, start, end, step, policy, squares)


@dataclass
class History:
    """A query beside its model; times in seconds since START."""

    connection: headrace.Connection
    shape: Shape
    now: int = 0
    created: int = 0
    done: set[int] = field(default_factory=set)
    is_paused: bool = False
    source: Rows = field(default_factory=dict)
    target: Rows = field(default_factory=dict)

    def create(self) -> None:
        self.connection.execute(self.shape.statement)
        self.created, self.done, self.is_paused = self.now, set(), False

    @property
    def definition(self) -> JobDefinition:
        return self.connection.session.context.catalog.jobs.get("", "q", CONTINUOUS_QUERY).definition

    def first(self) -> int:
        """Return the first instant of the schedule: its grid has been counted from the epoch."""
        every, created = self.shape.every, START // SECOND + self.created
        return -(-created // every) * every - START // SECOND

    def settle(self) -> None:
        self.connection.settle()
        if self.is_paused:
            return
        is_blocked = self.shape.policy == "BLOCKED"
        following = self.first() if is_blocked or not self.done else max(self.done) + self.shape.every
        due = [at for at in range(following, self.now + 1, self.shape.every) if at not in self.done]
        for at in due if is_blocked else due[-1:]:
            self.shape.execute(at, self.source, self.target)
            self.done.add(at)

    def recompute(self, start: int, length: int) -> None:
        context = self.connection.session.context
        end = start + length
        executions.recompute(context, self.definition, START + start * SECOND, START + end * SECOND, f"run {next(RUNS)}")
        grid = self.first() - self.shape.every * 100
        for at in range(grid, self.now + 1, self.shape.every):
            if at - self.shape.start < end and start < at - self.shape.end:
                self.shape.execute(at, self.source, self.target)
                if at >= self.first():
                    self.done.add(at)

    def read(self, path: str) -> Rows:
        rows = self.connection.execute(f"select v from {path}").fetchall()
        return {round((time.timestamp() * 1000 - START) / SECOND): int(value) for time, value in rows}


Action = Callable[[History], None]


def inserting(rows: Rows) -> Action:
    def act(history: History) -> None:
        values = ", ".join(f"({START + time * SECOND}, {value})" for time, value in rows.items())
        history.connection.execute(f"insert into root.src.d(time, v) values {values}")
        history.source |= rows

    return act


def deleting(start: int, length: int) -> Action:
    def act(history: History) -> None:
        first, end = START + start * SECOND, START + (start + length) * SECOND
        history.connection.execute(f"delete from root.src.d.v where time >= {first} and time < {end}")
        history.source = {time: value for time, value in history.source.items() if not start <= time < start + length}

    return act


def settling(seconds: int, interrupted: tuple[str, int] | None) -> Action:
    def act(history: History) -> None:
        history.connection.clock.advance(seconds * SECOND)
        history.now += seconds
        if interrupted is not None:
            with failpoints.armed(f"{interrupted[0]}:{interrupted[1]}:raise"):
                interrupt(history.connection.settle)
        history.settle()

    return act


def interrupt(work: Callable[[], object]) -> None:
    """Do some work that a failpoint may end early, as a crash does."""
    with suppress(failpoints.FailpointError, Error):
        work()


def pausing(history: History) -> None:
    history.connection.execute("pause cq q")
    history.is_paused = True


def resuming(history: History) -> None:
    history.connection.execute("resume cq q")
    history.is_paused = False


def replacing(history: History) -> None:
    history.connection.execute("drop cq q")
    history.create()


actions = st.one_of(
    st.dictionaries(INSTANTS, st.integers(1, 9), min_size=1, max_size=12).map(inserting),
    st.builds(deleting, INSTANTS, st.integers(1, 10)),
    st.builds(settling, st.integers(0, 12), st.none() | st.tuples(st.sampled_from(PLACES), st.integers(1, 3))),
    st.builds(lambda start, length: lambda history: history.recompute(start, length), INSTANTS, st.integers(1, 12)),
    st.sampled_from((pausing, resuming, replacing)),
)


@contextmanager
def open_home() -> Iterator[headrace.Connection]:
    """Yield a connection to a new home, in which `squares` is registered; end its code hosts."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "ext", "udf")
        folder.mkdir(parents=True)
        (folder / "mine.py").write_text(CODE)
        try:
            with headrace.connect(home, dialect="iotdb", clock=headrace.ManualClock(START)) as connection:
                connection.execute("create function squares as 'mine.Squares'")
                connection.execute("create timeseries root.src.d.v with datatype=INT64")
                yield connection
        finally:
            current_hosts().close()


@pytest.mark.parametrize(("squares", "histories"), [(False, 12), pytest.param(True, 2, id="with an aggregate of a user")])
def test_the_target_has_what_the_executions_computed(squares: bool, histories: int) -> None:
    strategies = (
        shapes(squares=squares),
        st.dictionaries(INSTANTS, st.integers(1, 9), min_size=8, max_size=20),
        st.lists(actions, min_size=2, max_size=6),
    )
    limits = settings(max_examples=scale(histories), deadline=None, suppress_health_check=list(HealthCheck))
    limits(given(*strategies)(play))()


def play(shape: Shape, rows: Rows, steps: list[Action]) -> None:
    """Play a history, and compare the target with its model."""
    with open_home() as connection:
        history = History(connection, shape)
        history.create()
        inserting(rows)(history)
        for step in (*steps, resuming, settling(3, None)):
            step(history)
            assert history.read("root.src.d") == history.source
        assert history.read("root.out.d") == history.target
        assert no_execution_is_left(connection)


def no_execution_is_left(connection: headrace.Connection) -> bool:
    rows: list[tuple[Any, ...]] = connection.execute("show cq executions").fetchall()
    return all(row[4] in ("DONE", "MISSED") for row in rows)
