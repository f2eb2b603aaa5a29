"""Streams of every window and trigger, run twice: undisturbed, and by drivers that die at failpoints."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.model.failpoints import FailpointError, calling
from headrace.streams.definition.define import StreamPlan
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, Row, StreamEnvironment
from tests.streams.receiving import ReceivingServer
from tests.streams.webhook_server import WebhookServer
from tests.streams.websocket_server import WebSocketServer
from tests.support.waiting import wait_until

OPTIONS: Final = "ignore expired 0 ignore update 0"
AGGREGATES: Final = "_wstart ws, count(*) n, sum(a) total, max(b) top"
WINDOWS: Final = {
    "interval": "interval(10s)",
    "sliding": "interval(10s) sliding(5s)",
    "session": "session(ts, 2s)",
    "state": "state_window(a)",
    "event": "event_window start with a > 1 end with b = 'x'",
}
STREAMS: Final = {
    **{
        f"{window}_{trigger.split()[0]}": f"trigger {trigger} {OPTIONS} into out_{window}_{trigger.split()[0]} as "
        f"select {AGGREGATES} from readings partition by tbname {clause}"
        for window, clause in WINDOWS.items()
        for trigger in ("at_once", "window_close", "max_delay 5s")
    },
    "count": f"trigger at_once watermark 100s into out_count as select {AGGREGATES} from readings "
    "partition by tbname count_window(3)",
    "count_delayed": f"trigger max_delay 5s watermark 2s into out_delayed as select {AGGREGATES} from readings "
    "partition by tbname count_window(2)",
    "continuous": f"trigger continuous_window_close recalculate 600s {OPTIONS} into out_continuous as "
    f"select {AGGREGATES} from readings partition by tbname interval(10s)",
    "continuous_filled": f"trigger continuous_window_close recalculate 600s {OPTIONS} into out_continuous_filled as "
    f"select {AGGREGATES} from readings interval(2s) fill(prev)",
    "forced": f"trigger force_window_close into out_forced as select {AGGREGATES} from readings partition by tbname interval(10s)",
    "forced_filled": "trigger force_window_close into out_forced_filled as "
    f"select {AGGREGATES} from readings partition by tbname interval(5s) fill(prev)",
    "filled": f"trigger at_once {OPTIONS} into out_filled as "
    f"select {AGGREGATES} from readings partition by g interval(2s) fill(linear)",
    "filled_delayed": f"trigger max_delay 5s {OPTIONS} into out_filled_delayed as "
    f"select {AGGREGATES} from readings interval(2s) fill(next)",
    "chosen": f"trigger window_close watermark 3s into out_chosen as select {AGGREGATES} from readings where a > 1 interval(10s)",
    "rows": f"trigger at_once {OPTIONS} into out_rows as select ts, a + 1 more, b from readings partition by tbname",
}
"""The streams by name, without CREATE STREAM and NOTIFY."""
NOTIFY: Final = "notify ('{url}') on ('window_open', 'window_close')"
OUTBOX_FAILPOINTS: Final = ("outbox.sent", "outbox.removed")
FAILPOINTS: Final = (*MICRO_BATCH_FAILPOINTS, *OUTBOX_FAILPOINTS, "streams.filled")
MAX_PASSAGE: Final = 3
EVENT_FIELDS: Final = (
    *("eventType", "windowType", "windowStart", "windowEnd", "result"),
    *("triggerCondition", "prevState", "curState", "nextState"),
)
"""The fields of an event that are equal in all runs."""

Event = tuple[Any, ...]


@dataclass(frozen=True)
class Kill:
    """The death of a driver, the `passage`-th time that it passes a failpoint."""

    point: str
    passage: int = 1


@dataclass(frozen=True)
class Step:
    """Rows to insert, a range to delete, and how far the clock advances."""

    rows: Sequence[Row] = ()
    delete: tuple[str, int, int] | None = None
    pause_ms: int = 0

    def apply(self, env: StreamEnvironment) -> None:
        """Write to `readings`."""
        if self.rows:
            env.insert(self.rows)
        if self.delete is not None:
            env.delete(*self.delete)


@dataclass(repr=False)
class StreamRun:
    """One stream with a driver of its own, and the server that it notifies."""

    env: StreamEnvironment
    plan: StreamPlan
    server: ReceivingServer
    epoch: int = 0

    def settle(self, kills: Sequence[Kill] = ()) -> list[Kill]:
        """Handle everything that was written; return those of `kills` that happened, one driver after another."""
        happened = [kill for kill in kills if self._settle_until_killed(kill)]
        self.env.settle({self.plan.id})
        return happened

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the target without the tag that identifies their group, which differs from database to database."""
        reason = self.env.record(self.plan).reason
        assert reason is None, (self.plan.name, reason)
        return [row[:-1] for row in self.env.results(self.plan)]

    def events(self) -> list[list[Event]]:
        """Return the events that the server has received of this stream: of each group in order, without ids and times of sending.

        The order of groups, also within a message, is not defined. A send that fails, as one to a slow server does, is repeated.
        """
        if self.plan.notification is not None:
            outbox = self.env.context.tables.outbox(self.plan.id)
            wait_until(lambda: not outbox.pending(), f"all events of {self.plan.name} are delivered")
        groups = defaultdict[str, list[Event]](list)
        for message in self.server.messages():
            for stream in message["streams"]:
                if stream["streamName"] == self.plan.name:
                    for event in stream["events"]:
                        groups[event["groupId"]].append(tuple(repr(event.get(name)) for name in EVENT_FIELDS))
        return sorted(groups.values())

    def _settle_until_killed(self, kill: Kill) -> bool:
        """Handle what was written with a driver that dies; return False if it never passed the failpoint."""
        deaths: list[FailpointError] = []

        def die() -> None:
            deaths.append(FailpointError(kill.point))
            raise deaths[0]

        with calling(kill.point, die, kill.passage):
            try:
                self.env.settle({self.plan.id})
            except FailpointError:
                assert deaths
        if deaths:
            self.epoch += 1
            self.env.restart_after_failure()
            self.env.restart(self.epoch)
        return bool(deaths)


@contextmanager
def open_runs(env: StreamEnvironment, names: Sequence[str]) -> Iterator[list[StreamRun]]:
    """Yield runs of streams over an empty `readings`. Some notify a WebSocket server, the others a webhook."""
    with ExitStack() as stack:
        servers: list[ReceivingServer] = [WebSocketServer(), WebhookServer()]
        for server in servers:
            server.start()
            stack.callback(server.stop)
        runs = []
        for name, server in zip(names, itertools.cycle(servers), strict=False):
            own = StreamEnvironment(env.context, env.database, table=env.table, subtables=env.subtables)
            stack.callback(own.restart_after_failure)
            notify = "" if name == "rows" else NOTIFY.format(url=server.url)
            runs.append(StreamRun(own, own.create(f"create stream {name} {STREAMS[name]} {notify}"), server))
        yield runs


@dataclass
class Campaign:
    """Kills at random, by a seed."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    by_stream: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def choose(self) -> list[Kill]:
        """Return the kills of one stream in one step. The second is one of the driver that recovers."""
        kills = [Kill(self.random.choice(FAILPOINTS), self.random.randint(1, MAX_PASSAGE)) for _ in range(2)]
        return kills[: self.random.choice([1, 1, 2])]

    def steps(self, count: int) -> Iterator[Step]:
        """Yield random writes: most in order, some late, some updates or deletes."""
        now = 0
        for _ in range(count):
            now += self.random.choice([0, 1000, 4000, 12_000])
            late = self.random.random() < 0.4
            rows = [self.row(max(0, now - 15_000) if late else now) for _ in range(self.random.randint(1, 5))]
            cut = self.random.randrange(0, now + 1, 500)
            delete = (self.random.choice(["d0", "d1"]), cut, cut + 3000) if self.random.random() < 0.3 else None
            yield Step(rows, delete, self.random.choice([0, 1000, 6000, 6000, 21_000, 601_000]))

    def row(self, first: int) -> Row:
        """Return a row of the four seconds from an instant on."""
        instant = first + self.random.randrange(0, 4000, 500)
        return (
            self.random.choice(["d0", "d1", "d2"]),
            instant,
            self.random.choice([1, 2, 7, None]),
            self.random.choice(["x", "y", None]),
        )

    def play(self, disturbed: StreamRun, undisturbed: StreamRun, name: str) -> None:
        """Let one stream catch up with kills, and compare its target with that of the undisturbed run."""
        for kill in disturbed.settle(self.choose()):
            self.counts[kill.point] += 1
            self.by_stream[name].add(kill.point)
        rows = disturbed.rows(), undisturbed.rows()
        assert rows[0] == rows[1], (name, self.seed, rows)
