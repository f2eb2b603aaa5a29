"""Pipes to an IoTDB server: whatever breaks on the way, the server ends with what a query with the same parameters returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import headrace
from headrace.errors import Error
from headrace.model.jobs import DesiredState, JobState
from headrace.pipes.iotdb import connection as iotdb_connection
from headrace.pipes.iotdb.queries import query
from headrace.settings import load
from tests.pipes.iotdb_results import execute, session
from tests.pipes.receivers import Points
from tests.pipes.test_change_source import deletes, inserts
from tests.pipes.test_running import deaths, pipe_records, run, run_and_die
from tests.streams.effort import EXAMPLES
from tests.support.frame_proxy import Fault, FrameProxy, NextFault, frame_proxy
from tests.support.iotdb_server import Server

pytestmark = pytest.mark.timeout(3600 if EXAMPLES else 600)
TIMEOUT_MS: Final = 2_000
MAX_STARTS: Final = 30
INSERTS: Final = "data.insert"
DEVICES: Final = ("d1", "d2", "d10", "e1")
numbers = count()
texts = st.builds(
    lambda time, text: f"insert into {{}}.d1(time, c) values ({time}, '{text}')", st.integers(0, 5), st.text("xy", max_size=3)
)
pairs = st.builds(
    lambda time, a, b: f"insert into {{}}.e1(time, a, b) aligned values ({time}, {a}, {b})",
    st.integers(0, 5),
    st.integers(-5, 5),
    st.none().map(lambda _: "null") | st.integers(-5, 5),
)
series = st.tuples(st.sampled_from(["d1", "d2", "d10"]), st.sampled_from(["a", "b"]))
creations = st.builds(
    lambda path, kind: f"create timeseries {{}}.{path[0]}.{path[1]} {kind}", series, st.sampled_from(["INT32", "DOUBLE", "TEXT"])
)
removals = st.builds(lambda path: f"delete timeseries {{}}.{path[0]}.{path[1]}", series)
writes = st.lists(inserts | inserts | texts | pairs | deletes | deletes | creations | removals, min_size=1, max_size=6)
faults = st.builds(NextFault, st.integers(0, 4), st.sampled_from([*[Fault.CUT, Fault.LOSE, Fault.REPEAT] * 3, Fault.STALL]))
kills = st.builds(NextFault, st.integers(0, 2), st.just(Fault.KILL))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a source: which series it transfers, by the path below the database, and of which times."""

    attributes: dict[str, str]
    matches: Callable[[str], bool]
    low: int | None
    high: int | None
    is_snapshot: bool
    inclusion: str

    def source(self, database: str) -> str:
        """Return the attributes as a statement has them."""
        attributes = {key: value.format(database) for key, value in self.attributes.items()}
        attributes |= {"inclusion": self.inclusion}
        attributes |= {"mode": "snapshot"} if self.is_snapshot else {}
        attributes |= {} if self.low is None else {"start-time": str(self.low)}
        attributes |= {} if self.high is None else {"end-time": str(self.high)}
        return ", ".join(f"'{key}'='{value}'" for key, value in attributes.items())

    def allows(self, statement: str) -> bool:
        """Return whether the source transfers what a statement does."""
        if "timeseries" in statement:
            return "schema" in self.inclusion
        return not statement.startswith("delete") or self.inclusion != INSERTS

    def has(self, path: str, time: int) -> bool:
        """Return whether a point is transferred."""
        return self.matches(path) and (self.low is None or time >= self.low) and (self.high is None or time <= self.high)


PREFIXES: Final = (
    ({"pattern": "{}"}, lambda _: True),
    ({"pattern": "{}.d1"}, lambda path: path.startswith(".d1")),
    ({"pattern": "{}.d1.a"}, lambda path: path.startswith(".d1.a")),
    ({"path": "{}.d1.**"}, lambda path: path.startswith(".d1.")),
)
WILDCARDS: Final = (
    ({"path": "{}.*.a"}, lambda path: path.endswith(".a")),
    ({"pattern": "{}.d1*.*", "pattern.format": "iotdb"}, lambda path: path.startswith(".d1")),
)
bounds = st.none() | st.none() | st.integers(0, 5)


@st.composite
def parameters(draw: st.DrawFn) -> Parameters:
    inclusion = draw(st.sampled_from([INSERTS, "data", "data, schema.timeseries"]))
    attributes, matches = draw(st.sampled_from((*PREFIXES, *WILDCARDS) if inclusion == INSERTS else PREFIXES))
    low, high = draw(bounds), draw(bounds)
    if low is not None and high is not None:
        low, high = sorted((low, high))
    return Parameters(attributes, matches, low, high, draw(st.integers(0, 4)) == 0, inclusion)


sinks = st.sampled_from(["", "'sink.batch.size-bytes'='60'", "'sink.compressor'='snappy,lz4'", "'sink.batch.size-bytes'='500'"])
steps = st.tuples(writes, deaths, st.lists(faults, max_size=2))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = load(home=tmp_path_factory.mktemp("home"), driver_rows=7)
    with headrace.connect(dialect="iotdb", settings=home) as opened:
        yield opened


@pytest.fixture(scope="module")
def proxy(iotdb_server: Server) -> Iterator[FrameProxy]:
    def kill() -> None:
        iotdb_server.kill()
        iotdb_server.restart()

    with pytest.MonkeyPatch.context() as patch, frame_proxy(iotdb_server.port, kill) as one:
        patch.setattr(iotdb_connection.Login.__init__, "__defaults__", (None, TIMEOUT_MS))
        yield one


def received(server: Server, database: str) -> Points:
    """Return the points that the server has."""
    with session(server) as opened:
        tables = [query(opened, f"select * from {database}.{device} align by device") for device in DEVICES]
    return {
        (row["Device"], row["Time"], name): value
        for table in tables
        for row in table.to_pylist()
        for name, value in row.items()
        if name not in ("Device", "Time") and value is not None
    }


def expected(connection: headrace.Connection, database: str, own: Parameters) -> Points:
    """Return the points that a query finds here."""
    points: Points = {}
    for path in (f"{database}.{device}" for device in DEVICES):
        cursor = connection.cursor()
        cursor.execute(f"select * from {path} align by device")
        names = [column[0] for column in cursor.description or ()][2:]
        for row in cursor.fetchall():
            time = round(row[0].timestamp() * 1000)
            values = zip(names, row[2:], strict=True)
            points |= {(path, time, name): value for name, value in values if value is not None}
    return {
        (path, time, name): value
        for (path, time, name), value in points.items()
        if own.has(f"{path}.{name}".removeprefix(database), time)
    }


def write(connection: headrace.Connection, database: str, statements: Sequence[str], own: Parameters) -> None:
    """Execute those statements that the pipe transfers, and that do not fail: some series may be there, or not."""
    for statement in filter(own.allows, statements):
        with suppress(Error):
            connection.execute(statement.format(database))


def run_until_done(connection: headrace.Connection, name: str) -> None:
    """Run a pipe until it has nothing to do; start it again whenever its receiver is away for too long."""
    for _ in range(MAX_STARTS):
        run(connection, name)
        (record,) = pipe_records(connection, name)
        if record.state is not JobState.STOPPED or record.desired is DesiredState.DROPPED:
            return
        connection.execute(f"start pipe {name}")
    pytest.fail(f"the receiver stays away: {record.reason}")


def check(
    connection: headrace.Connection,
    server: Server,
    proxy: FrameProxy,
    own: Parameters,
    sink: str,
    before: Sequence[str],
    following: Sequence[tuple[list[str], list[tuple[str, int]], list[NextFault]]],
) -> None:
    """Write, run a pipe whose driver dies and whose connections break, and compare what is on both sides at the end."""
    name = f"h{next(numbers)}"
    database = f"root.{name}"
    proxy.plan(())
    connection.execute(f"create database {database}")
    write(connection, database, before, own)
    address = f"'sink.ip'='127.0.0.1', 'sink.port'='{proxy.port}'{', ' if sink else ''}{sink}"
    connection.execute(f"create pipe {name} with source ({own.source(database)}) with sink ('sink'='iotdb-thrift-sink', {address})")
    at_start = expected(connection, database, own)
    for statements, dying, faulty in following:
        write(connection, database, statements, own)
        proxy.plan(faulty)
        for failpoint, passage in dying:
            run_and_die(connection, name, failpoint, passage)
        run_until_done(connection, name)
    assert received(server, database) == (at_start if own.is_snapshot else expected(connection, database, own))
    connection.execute(f"drop pipe if exists {name}")
    execute(server, f"delete database {database}")  # a small server has room for few


@given(parameters(), sinks, writes, st.lists(steps, min_size=1, max_size=3))
@settings(max_examples=EXAMPLES // 20 or 12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_server_ends_with_what_a_query_returns(
    connection: headrace.Connection,
    iotdb_server: Server,
    proxy: FrameProxy,
    own: Parameters,
    sink: str,
    before: list[str],
    following: list[tuple[list[str], list[tuple[str, int]], list[NextFault]]],
) -> None:
    check(connection, iotdb_server, proxy, own, sink, before, following)


@given(parameters(), writes, st.lists(st.tuples(writes, deaths, st.tuples(kills)), min_size=1, max_size=2))
@settings(
    max_examples=EXAMPLES // 400 or 1,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate],
)
def test_a_server_that_is_killed_ends_with_what_a_query_returns(
    connection: headrace.Connection,
    iotdb_server: Server,
    proxy: FrameProxy,
    own: Parameters,
    before: list[str],
    following: list[tuple[list[str], list[tuple[str, int]], list[NextFault]]],
) -> None:
    check(connection, iotdb_server, proxy, own, "'sink.batch.size-bytes'='60'", before, following)
