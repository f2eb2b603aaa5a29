"""Statements of the schema and rows that a pipe sends to a real IoTDB server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import StatementEvent
from headrace.pipes.iotdb.receiver import ThriftSink
from headrace.pipes.plugins import Delivery
from headrace.settings import load
from tests.pipes.iotdb_results import rows
from tests.pipes.test_statements import Pipe
from tests.pipes.thrift import sink
from tests.support.iotdb_server import Server
from tests.trees.test_schema_statements import STEPS

LIMIT_S = 600
pytestmark = pytest.mark.timeout(LIMIT_S)
SHOWN = {"timeseries {}.**": (0, 1, 2, 3, 4, 5, 6, 7), "devices {}.**": (0, 1), "all ttl": (0, 1)}
"""What is shown of a database, and the columns that both servers have."""


UNDONE = (
    ("create timeseries root.undone.d.s INT32", "create device template u (s INT32)", "set device template u to root.undone.t"),
    ("alter timeseries root.undone.d.s upsert tags('k'='v')", "delete timeseries root.undone.d.s"),
    (
        "create timeseries using device template on root.undone.t.d",
        "alter device template u add (t INT32)",
        "deactivate device template u from root.undone.t.d",
        "unset device template u from root.undone.t",
        "drop device template u",
    ),
)
"""Batches of statements that undo each other, and what earlier batches have done."""


@pytest.fixture
def thrift(iotdb_server: Server) -> Iterator[ThriftSink]:
    one = sink(PipeAttributes({"sink.ip": "127.0.0.1", "sink.port": str(iotdb_server.port)}))
    yield one
    one.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home")) as opened:
        yield opened


def shown(connection: headrace.Connection, server: Server, database: str) -> tuple[object, object]:
    """Return what both show of a database, as far as they show it alike."""

    def part(results: list[tuple[object, ...]], columns: tuple[int, ...]) -> list[tuple[str, ...]]:
        texts = (tuple(str(row[at]) for at in columns) for row in results)
        return sorted(row for row in texts if row[0].startswith(f"{database}."))

    statements = {f"show {what.format(database)}": columns for what, columns in SHOWN.items()}
    own = [part(connection.execute(statement).fetchall(), columns) for statement, columns in statements.items()]
    return own, [part(rows(server, statement), columns) for statement, columns in statements.items()]


def steps(database: str) -> list[str]:
    """Return statements about a database of its own."""
    return [statement.replace("root.db", database).replace("900", "90000000000000") for statement, _ in STEPS]


def test_iotdb_has_the_schema_after_each_change_also_if_it_is_sent_twice(
    home: headrace.Connection, iotdb_server: Server, thrift: ThriftSink
) -> None:
    pipe = Pipe(home, "steps", pattern="root")
    for number, statement in enumerate(steps("root.steps")):
        home.execute(statement)
        events = pipe.read()
        for _ in range(2):
            thrift.transfer(Delivery("pipe", number, events))
        own, theirs = shown(home, iotdb_server, "root.steps")
        assert theirs == own, statement


def test_iotdb_has_the_present_schema_and_its_history(home: headrace.Connection, iotdb_server: Server, thrift: ThriftSink) -> None:
    for statement in steps("root.present")[:-5]:
        home.execute(statement)
    pipe = Pipe(home, "present", **{"pattern": "root", "history.enable": "true"})
    events = pipe.read()
    assert any(isinstance(event, StatementEvent) for event in events)
    for _ in range(2):
        thrift.transfer(Delivery("present", 1, events))
    own, theirs = shown(home, iotdb_server, "root.present")
    assert theirs == own


def test_statements_about_what_a_later_one_has_removed_are_done(
    home: headrace.Connection, iotdb_server: Server, thrift: ThriftSink
) -> None:
    pipe = Pipe(home, "undone", pattern="root")
    for batch in UNDONE:
        for statement in batch:
            home.execute(statement)
        events = pipe.read()
        for _ in range(2):
            thrift.transfer(Delivery("undone", 1, events))
    assert shown(home, iotdb_server, "root.undone") == ([[], [], []], [[], [], []])
