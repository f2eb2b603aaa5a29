"""Pipes: a history and inserts to an IoTDB server, messages to and from a Kafka broker, many pipes on one table, and an idle pipe.

An IoTDB server is used if its address is given, and a broker if there is one for the tests.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from benchmarks.bench import Bench
from benchmarks.cases.idle import cpu_share
from benchmarks.data import START_MS
from benchmarks.deltalog import commit_time
from benchmarks.driver import running_driver
from benchmarks.handwritten import pipes as by_hand
from benchmarks.measure import MAX_WAIT_SECONDS, Memory, Side, Timings, interleave
from benchmarks.pipe_runs import PipeTree, RecordedProgress, create_pipe, drop_database, drop_pipe, has_read, has_sent
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement
from headrace.storage.delta.handles import rows_uri

if TYPE_CHECKING:
    from tests.support.kafka_broker import Broker

DATABASE: Final = "root.bench_pipes"
SECONDS_PER_ROW: Final = 1 / 500_000
SECONDS_PER_MESSAGE: Final = 1 / 100_000
VISIBLE_SECONDS: Final = 0.2
FAN_OUT_SECONDS: Final = 0.5
COMMIT_ROWS_PER_DEVICE: Final = 10
PAUSE_SECONDS: Final = 0.1
POLL_SECONDS: Final = 0.001
NOTHING: Final = "'sink'='do-nothing-sink'"
BY_HAND: Final = "by hand"


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure what there is a receiver for."""
    for name, case in CASES.items():
        if bench.sizes.only in name:
            yield from case(bench)


def location(tree: PipeTree) -> str:
    """Return the URI of the Delta table of a tree."""
    return rows_uri(tree.bench.settings.tables_uri, tree.table)


def iotdb_sink(address: str) -> str:
    host, _, port = address.partition(":")
    return f"'sink'='iotdb-thrift-sink', 'sink.ip'='{host}', 'sink.port'='{port}'"


def transferred(bench: Bench, source: str, sink: str, is_done: Callable[[RecordedProgress, str], float]) -> float:
    """Return how long a driver takes to run a new pipe, from its start until `is_done` returns."""
    progress = RecordedProgress(bench)
    pipe = create_pipe(bench, "bench_pipe", source, sink)
    with progress.observe():
        start = time.time()
        with running_driver(bench, fills=True):
            seconds = is_done(progress, pipe.definition.id) - start
    drop_pipe(bench, "bench_pipe")
    return seconds


def measure_history(bench: Bench) -> Iterator[Measurement]:
    """Measure how long the history of a tree takes to an IoTDB server."""
    if not bench.sizes.iotdb:
        return
    tree, rows = PipeTree(bench, DATABASE, bench.sizes.pipe_devices), bench.sizes.pipe_rows
    version = tree.write(rows)
    client = by_hand.IotdbClient(bench.sizes.iotdb)
    sums: list[tuple[int, float]] = []

    def check() -> None:
        sums.append(client.sums(DATABASE))
        assert sums[-1] == sums[0]
        assert sums[-1][0] == rows
        client.drop(DATABASE)

    def pipe() -> Sequence[float]:
        done = has_read(tree.table, version)
        with probe.activate():
            seconds = transferred(
                bench, f"'path'='{DATABASE}.**'", iotdb_sink(bench.sizes.iotdb), lambda progress, id: progress.wait([id], done)
            )
        check()
        return [seconds]

    def loop() -> Sequence[float]:
        start = time.perf_counter()
        client.send(by_hand.read_rows(location(tree)))
        seconds = time.perf_counter() - start
        check()
        return [seconds]

    def own_pipe() -> Sequence[float]:
        assert own is not None
        seconds = own.seconds(rows)
        check()
        return [seconds]

    client.drop(DATABASE)
    probe, memory = Probe(history_functions()), Memory()
    sides: dict[str, Side] = {"headrace": memory.watch("headrace", pipe), BY_HAND: memory.watch(BY_HAND, loop)}
    own = None
    if source := bench.sizes.iotdb_source:
        own = by_hand.OwnPipe(source, client, bench.sizes.iotdb, DATABASE)
        own.write(by_hand.read_rows(location(tree)))
        sides["IoTDB's own pipe"] = own_pipe
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    if own is not None:
        own.close()
    client.close()
    yield Measurement(
        f"history of {rows:,} rows of {len(tree.devices)} devices to an IoTDB server",
        timings["headrace"],
        timings[BY_HAND],
        limit=Limit(seconds=rows * SECONDS_PER_ROW),
        parts=probe.timings(),
        peaks=memory.peaks,
        note=rate(rows, timings),
    )


def rate(rows: int, timings: Mapping[str, Timings]) -> str:
    return ", ".join(f"{name} {rows / own.median:,.0f} rows/s" for name, own in timings.items())


def measure_visibility(bench: Bench) -> Iterator[Measurement]:
    """Measure how long it takes from an INSERT until an IoTDB server has the row."""
    if not bench.sizes.iotdb:
        return
    tree, clients = PipeTree(bench, DATABASE, 1), [by_hand.IotdbClient(bench.sizes.iotdb) for _ in range(2)]
    tree.write(1)
    (device,), instants = tree.devices, itertools.count(START_MS + 1_000_000)

    def insert() -> float:
        """Insert a row, and return how long after the statement was sent the server has it."""
        time.sleep(PAUSE_SECONDS * random.random())
        instant = next(instants)
        start = time.perf_counter()
        bench.tree.execute(f"INSERT INTO {device}(time, v) VALUES ({instant}, 1.5)")
        while not clients[0].has(device, instant):
            assert time.perf_counter() - start < MAX_WAIT_SECONDS
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - start

    def samples() -> list[float]:
        insert()
        return [insert() for _ in range(bench.sizes.pipe_inserts)]

    def pipe() -> Sequence[float]:
        create_pipe(bench, "bench_pipe", f"'path'='{DATABASE}.**'", iotdb_sink(bench.sizes.iotdb))
        with running_driver(bench, fills=True), probe.activate():
            seconds = samples()
        drop_pipe(bench, "bench_pipe")
        return seconds

    def loop() -> Sequence[float]:
        with by_hand.following(location(tree), clients[1], bench.settings.idle_poll_ms / 1000):
            return samples()

    probe = Probe(insert_functions())
    timings = interleave({"headrace": pipe, BY_HAND: loop}, bench.sizes.rounds, bench.log)
    for client in clients:
        client.drop(DATABASE)
        client.close()
    yield Measurement(
        "from an INSERT of a row until an IoTDB server has it",
        timings["headrace"],
        timings[BY_HAND],
        limit=Limit(seconds=VISIBLE_SECONDS),
        parts=probe.timings(),
    )


def history_functions() -> list[TimedFunction]:
    """Return the parts of the transfer of a history."""
    from headrace.pipes import history
    from headrace.pipes.iotdb import receiver
    from headrace.pipes.sources.change_source import ChangeSource

    return [
        TimedFunction("plan chunks", history.History, "plan"),
        TimedFunction("read a chunk", ChangeSource, "read"),
        TimedFunction("send a chunk, of which:", receiver.ThriftSink, "transfer"),
        TimedFunction("request and answer", receiver.ThriftSink, "_send"),
    ]


def insert_functions() -> list[TimedFunction]:
    """Return the parts of the way of an inserted row."""
    from headrace.pipes.feeds import TableFeed
    from headrace.pipes.iotdb import receiver
    from headrace.service.connection import Connection

    return [
        TimedFunction("INSERT", Connection, "execute"),
        TimedFunction("read changes", TableFeed, "read"),
        TimedFunction("send", receiver.ThriftSink, "transfer"),
    ]


@contextmanager
def kafka_broker() -> Iterator[Broker | None]:
    """Provide the broker of the tests; None if there is none."""
    from tests.support.kafka_broker import has_jars, running_broker

    if not has_jars():
        yield None
        return
    with running_broker() as broker:
        yield broker


def measure_kafka(bench: Bench) -> Iterator[Measurement]:
    """Measure how long messages take to a broker, and back into a tree."""
    with kafka_broker() as broker:
        if broker is None:
            bench.log("no Kafka broker")
            return
        topics = Topics(bench, broker)
        rows = bench.sizes.pipe_messages
        for name, sides in {
            f"{rows:,} rows to Kafka": {"headrace": topics.send, BY_HAND: topics.send_by_hand},
            f"{rows:,} messages of Kafka into a tree": {"headrace": topics.receive, BY_HAND: topics.receive_by_hand},
        }.items():
            memory = Memory()
            timings = interleave({side: memory.watch(side, work) for side, work in sides.items()}, bench.sizes.rounds, bench.log)
            yield Measurement(
                name,
                timings["headrace"],
                timings[BY_HAND],
                limit=Limit(seconds=rows * SECONDS_PER_MESSAGE),
                peaks=memory.peaks,
                note=rate(rows, timings),
            )


class Topics:
    """A tree whose rows go to topics and from there into another tree."""

    def __init__(self, bench: Bench, broker: Broker) -> None:
        self._bench, self._broker = bench, broker
        self._tree = PipeTree(bench, DATABASE, bench.sizes.pipe_devices)
        self._rows = bench.sizes.pipe_messages
        self._tree.write(self._rows)
        self._filled = ""

    def send(self) -> Sequence[float]:
        """Send all rows by a pipe."""
        self._filled = self._broker.create_topic()
        sink = f"'sink'='kafka-sink', 'bootstrap.servers'='{self._broker.bootstrap}', 'topic'='{self._filled}'"
        return [transferred(self._bench, f"'path'='{DATABASE}.**'", sink, self._wait)]

    def send_by_hand(self) -> Sequence[float]:
        """Send all rows by a loop."""
        topic, start = self._broker.create_topic(), time.perf_counter()
        by_hand.produce(by_hand.read_rows(location(self._tree)), self._broker.bootstrap, topic)
        return [time.perf_counter() - start]

    def receive(self) -> Sequence[float]:
        """Read all messages by a pipe, into an empty tree."""
        drop_database(self._bench, DATABASE)
        self._bench.tree.execute(f"CREATE DATABASE {DATABASE}")
        source = f"'source'='kafka-source', 'bootstrap.servers'='{self._broker.bootstrap}', 'topics'='{self._filled}'"
        seconds = transferred(self._bench, f"{source}, 'database'='{DATABASE}'", "'sink'='write-back-sink'", self._wait)
        return [seconds]

    def receive_by_hand(self) -> Sequence[float]:
        """Read all messages by a loop."""
        folder, start = self._bench.scratch("kafka"), time.perf_counter()
        by_hand.consume(self._broker.bootstrap, self._filled, self._rows, str(folder))
        return [time.perf_counter() - start]

    def _wait(self, progress: RecordedProgress, id: str) -> float:
        return progress.wait([id], has_sent(self._rows))


def measure_fan_out(bench: Bench) -> Iterator[Measurement]:
    """Measure how long many pipes with different patterns take for a commit to the table that all of them read."""
    tree, pipes = PipeTree(bench, DATABASE, bench.sizes.pipe_devices), bench.sizes.pipes
    rows = COMMIT_ROWS_PER_DEVICE * len(tree.devices)
    version = tree.write(rows)
    ids = [create_pipe(bench, f"bench_{number}", pattern(tree, number), NOTHING).definition.id for number in range(pipes)]
    progress, probe, memory = RecordedProgress(bench), Probe(fan_out_functions()), Memory()

    def commit() -> Sequence[float]:
        with probe.activate():
            version = tree.write(rows)
            end = progress.wait(ids, has_read(tree.table, version))
        return [end - commit_time(location(tree), version)]

    with progress.observe(), running_driver(bench, fills=True):
        progress.wait(ids, has_read(tree.table, version))
        timings = interleave({"headrace": memory.watch("headrace", commit)}, bench.sizes.rounds, bench.log)
    for number in range(pipes):
        drop_pipe(bench, f"bench_{number}")
    yield Measurement(
        f"{pipes} pipes with different patterns: a commit of {rows:,} rows of {len(tree.devices)} devices",
        timings["headrace"],
        limit=Limit(seconds=FAN_OUT_SECONDS),
        parts=probe.timings(),
        peaks=memory.peaks,
    )


def pattern(tree: PipeTree, number: int) -> str:
    """Return one of different patterns: of some devices by prefix, of a group, of devices anywhere, and of all."""
    digit, group = number % 10, number // 4 % 10
    return (
        f"'pattern'='{tree.name}.g{group}.d0{digit}'",
        f"'path'='{tree.name}.g{group}.**'",
        f"'path'='{tree.name}.*.d*{digit}.v'",
        f"'path'='{tree.name}.**', 'start-time'='{START_MS + number}'",
    )[number % 4]


def fan_out_functions() -> list[TimedFunction]:
    """Return the parts of the work of a pipe."""
    from headrace.catalog.jobs import Jobs
    from headrace.pipes import feeds
    from headrace.pipes.selection import Selection
    from headrace.pipes.sources.change_source import ChangeSource

    return [
        TimedFunction("read changes once", feeds, "change_events"),
        TimedFunction("read a batch, of which:", ChangeSource, "read"),
        TimedFunction("select series", Selection, "apply"),
        TimedFunction("count what is pending", ChangeSource, "pending"),
        TimedFunction("check that the pipe is wanted", Jobs, "by_id"),
        TimedFunction("record the position", Jobs, "set_progress"),
    ]


def measure_idle(bench: Bench) -> Iterator[Measurement]:
    """Measure the CPU time of a driver with a pipe that has nothing to do, against one without pipes."""
    tree, progress = PipeTree(bench, DATABASE, 1), RecordedProgress(bench)
    version = tree.write(1)

    @contextmanager
    def idle_pipe() -> Iterator[None]:
        pipe = create_pipe(bench, "bench_pipe", f"'path'='{DATABASE}.**'", NOTHING)
        with progress.observe(), running_driver(bench):
            progress.wait([pipe.definition.id], has_read(tree.table, version))
            yield
        drop_pipe(bench, "bench_pipe")

    seconds = bench.sizes.idle_seconds
    sides: dict[str, Side] = {
        "headrace": cpu_share(idle_pipe, seconds),
        "no pipe": cpu_share(lambda: running_driver(bench), seconds),
    }
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    yield Measurement(
        "CPU time per second of a driver with an idle pipe", timings["headrace"], others={"no pipe": timings["no pipe"]}
    )


CASES: Final[Mapping[str, Callable[[Bench], Iterator[Measurement]]]] = {
    "history": measure_history,
    "inserts": measure_visibility,
    "kafka": measure_kafka,
    "fan_out": measure_fan_out,
    "idle": measure_idle,
}
"""The parts of the benchmark, by names that `--only` selects."""
