"""Pipes that transfer the schema: a receiver that runs the statements between the rows has what the sender has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headrace
from headrace.errors import Error
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import Event, StatementEvent
from headrace.pipes.feeds import Feeds
from headrace.pipes.plugins import PipeContext, Source
from headrace.pipes.shared import Shared
from headrace.pipes.sources import trees
from headrace.settings import load
from tests.catalog.samples import definition
from tests.pipes.schema_receiver import HomeReceiver, home_of

numbers = count()
TEMPLATES = ("create device template {T} aligned (a DOUBLE)", "set device template {T} to root.x.t")
DATABASES = ("x", "y")
DEVICES = ("d1", "d10", "t.d1")
databases = st.sampled_from((*DATABASES, "x"))
paths = st.builds(lambda database, device: f"{database}.{device}", databases, st.sampled_from(DEVICES))
names = st.sampled_from(["a", "b"])
TYPES = {"a": "DOUBLE", "b": "INT64 ENCODING=PLAIN COMPRESSION=SNAPPY"}
values = st.integers(-3, 3)


def build(text: str, **parts: st.SearchStrategy[str] | st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    """Return statements with drawn parts."""
    return st.fixed_dictionaries(parts).map(lambda drawn: text.format(**drawn, type=TYPES.get(str(drawn.get("name")), "")))


times = st.integers(0, 5)
alignments = st.sampled_from(["", "aligned "])
writes = build(
    "insert into root.{path}(time, {name}) {aligned}values ({time}, {value})",
    path=paths,
    name=names,
    aligned=alignments,
    time=times,
    value=values,
)
schema_changes = st.one_of(
    build("create database root.{database}", database=databases),
    build("create timeseries root.{path}.{name} {type}", path=paths, name=names),
    build("create timeseries root.{path}.{name}(c) {type} tags('k'='v', 'l'='w') attributes('m'='n')", path=paths, name=names),
    build("create aligned timeseries root.{path}(a DOUBLE, b INT64)", path=paths),
    build("alter timeseries root.{path}.{name} rename 'k' to 'n'", path=paths, name=names),
    build(
        "alter timeseries root.{path}.{name} upsert alias=e tags('k'='x') attributes('y'='{time}')",
        path=paths,
        name=names,
        time=times,
    ),
    build("alter timeseries root.{path}.{name} drop 'k', 'm'", path=paths, name=names),
    build("delete timeseries root.{path}.{name}", path=paths, name=names),
    build("delete timeseries root.{path}.*", path=paths),
    build("delete timeseries root.{database}.**", database=databases),
    build("set ttl to root.{path} {time}0000000000000000", path=paths, time=st.integers(1, 5)),
    build("unset ttl from root.{path}", path=paths),
    build("delete database root.{database}", database=databases),
)
template_changes = st.one_of(
    build("create device template {{T}} {aligned}(a DOUBLE)", aligned=alignments),
    build("alter device template {{T}} add ({name} {type})", name=names),
    build("set device template {{T}} to root.{database}.t", database=databases),
    build("create timeseries using device template on root.{path}", path=paths),
    build("deactivate device template {{T}} from root.{database}.t.*", database=databases),
    build("unset device template {{T}} from root.{database}.t", database=databases),
    st.just("drop device template {T}"),
)
deletions = build("delete from root.{path}.{name} where time >= {time}", path=paths, name=names, time=times)
statements = st.integers(0, 9).flatmap(
    lambda kind: writes if kind < 3 else schema_changes if kind < 7 else template_changes if kind < 9 else deletions
)
operations = st.lists(statements, min_size=2, max_size=12)
patterns = st.sampled_from(["root.{}", "root.{}x.", "root.{}x.d1", "root.{}x.t.", "root.{}y.d10.b"])


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path_factory.mktemp("sender"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path_factory.mktemp("receiver"))) as opened:
        yield opened


class Pipe:
    """A source of a pipe, and the position that it has come to."""

    def __init__(self, sender: headrace.Connection, name: str, **attributes: str) -> None:
        self.context, self.name = sender.session.context, name
        self.attributes = PipeAttributes({"inclusion": "all", "history.enable": "false"} | attributes)
        self.offsets = trees.begin(self.attributes, self.context)
        trees.capture(self.attributes, self.context, f"id-{name}")
        self.feeds = Feeds(self.context)
        self.source = self.open()
        self.record()

    def record(self) -> None:
        """Record a job, to which the ledger of the history belongs."""
        self.context.catalog.jobs.create(definition(self.name, kind="pipe", database="", sources=(), target=None))

    def open(self) -> Source:
        return trees.create(self.attributes, PipeContext(self.context, f"id-{self.name}", self.name, shared=Shared(self.feeds)))

    def restart(self) -> None:
        """Go on in another process."""
        self.source.close()
        self.feeds = Feeds(self.context)
        self.source = self.open()

    def read(self) -> list[Event]:
        """Return all that there is, each batch read twice as after a crash."""
        events: list[Event] = []
        self.feeds.refresh()
        self.feeds.poll()
        while self.source.has_news(self.offsets):
            batch = self.source.read(self.offsets)
            if batch is None:
                break
            again = self.source.read(self.offsets, batch.offsets)
            assert again is not None, "a batch cannot be repeated"
            assert described(again.events) == described(batch.events)
            events += batch.events
            self.offsets = batch.offsets
            self.feeds.poll()
        return events


def described(events: Sequence[Event]) -> list[object]:
    return [event.sql if isinstance(event, StatementEvent) else (type(event), event.data.rows.num_rows) for event in events]


def run(connection: headrace.Connection, statement: str, prefix: str) -> None:
    """Run a statement in databases of a prefix; it may fail."""
    text = statement.replace("root.", f"root.{prefix}").replace("{T}", f"t{prefix}")
    with suppress(Error):
        connection.execute(text)


def check(sender: headrace.Connection, receiver: headrace.Connection, prefix: str, pattern: str) -> None:
    """Assert that the receiver shows what the sender shows of what is transferred."""
    for database in (f"root.{prefix}{name}" for name in DATABASES):
        theirs, own = (home_of(one, database) for one in (sender, receiver))
        if f"{database}.".startswith(pattern):
            assert own == theirs
            continue
        for what in ("timeseries", "points"):
            assert own[what] == [row for row in theirs[what] if row[0].startswith(pattern)]


@example(
    ["insert into root.x.t.d1(time, a) values (0, 2)"],
    ["deactivate device template {T} from root.x.t.*", "unset device template {T} from root.x.t", "delete timeseries root.x.**"],
    set(),
    False,
    True,
    "root.{}x.t.",
)
@given(operations, operations, st.sets(st.integers(0, 25)), st.booleans(), st.booleans(), patterns)
@settings(max_examples=20, deadline=None)
def test_the_receiver_has_what_the_sender_has(
    sender: headrace.Connection,
    receiver: headrace.Connection,
    before: list[str],
    after: list[str],
    cuts: set[int],
    restarts: bool,
    has_history: bool,
    pattern: str,
) -> None:
    prefix = f"p{next(numbers):05}"
    pattern, home = pattern.format(prefix), HomeReceiver(receiver)
    for statement in ("create database root.x", *TEMPLATES, *(before if has_history else ())):
        run(sender, statement, prefix)
    pipe = Pipe(sender, prefix, **{"pattern": pattern, "history.enable": str(has_history).lower()})
    if not has_history:
        # A template that is set elsewhere could not be dropped when the sender drops it.
        is_set = f"root.{prefix}x.t.".startswith(pattern)
        for statement in ("create database root.x", *(TEMPLATES if is_set else TEMPLATES[:1])):
            run(receiver, statement, prefix)
    for number, statement in enumerate(after if has_history else (*before, *after)):
        run(sender, statement, prefix)
        if number in cuts:
            home.receive(pipe.read())
            check(sender, receiver, prefix, pattern)
            if restarts:
                pipe.restart()
    home.receive(pipe.read())
    check(sender, receiver, prefix, pattern)
    pipe.source.close()
