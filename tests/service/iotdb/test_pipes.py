"""Statements about pipes: what is refused, what is recorded, and what is shown."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import headrace
from headrace import secrets
from headrace.errors import Error, ExistsError, NotFoundError, NotSupportedError, OperationalError, ProgrammingError
from headrace.jobs.registry import kind_of
from headrace.model.access import administrator
from headrace.model.jobs import DesiredState, JobCounters, JobProgress, JobState, StopReason
from headrace.model.pipes import PipeStage
from headrace.model.positions import Position
from headrace.pipes import builtin
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.kind import PIPE
from headrace.pipes.plugins import PipeContext, Plugin, Sink
from headrace.service.topics.trees.pipe_checks import check_stages
from tests.service.iotdb.conftest import START

SOURCE = "with source ('source'='do-nothing-source')"
SINK = "with sink ('sink'='do-nothing-sink')"
COLUMNS = (
    *("ID", "CreationTime", "State", "PipeSource", "PipeProcessor", "PipeSink", "ExceptionMessage"),
    *("RemainingEventCount", "EstimatedRemainingSeconds"),
)


class RemoteSink(Sink):
    """A sink whose receiver answers to one password."""

    handshakes: ClassVar[list[str]] = []
    closed: ClassVar[int] = 0

    def __init__(self, password: str) -> None:
        self.password = password

    def handshake(self) -> None:
        RemoteSink.handshakes.append(self.password)
        if self.password != "hunter2":
            raise OperationalError(f"the receiver refuses {self.password}", hint=f"is it {self.password}?")

    def close(self) -> None:
        RemoteSink.closed += 1


def validate(attributes: PipeAttributes) -> None:
    if "port" in attributes and attributes.integer("port", default=0) <= 0:
        raise pipe_error(f"sink.port must be > 0, but got {attributes['port']}")


def create(attributes: PipeAttributes, _: PipeContext) -> RemoteSink:
    return RemoteSink(attributes.text("password", default="root"))


REMOTE = Plugin(
    name="remote-sink",
    stage=PipeStage.SINK,
    class_name="RemoteSink",
    validate=lambda: validate,
    create=lambda: create,
)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a sink with a password, and return the beginning of its attributes."""
    monkeypatch.setitem(builtin.BY_NAME, "remote-sink", REMOTE)
    RemoteSink.handshakes, RemoteSink.closed = [], 0
    return "'sink'='remote-sink'"


def shown(connection: headrace.Connection, sql: str = "show pipes") -> list[dict[str, Any]]:
    cursor = connection.execute(sql)
    assert cursor.description is not None
    assert tuple(column[0] for column in cursor.description) == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in cursor.fetchall()]


def job(connection: headrace.Connection, name: str = "p") -> Any:
    return connection.session.context.catalog.jobs.get("", name, PIPE)


def stop(connection: headrace.Connection, reason: str = "the receiver is down") -> None:
    """Record that a pipe has failed."""
    catalog = connection.session.context.catalog
    why = StopReason("OPERATIONAL", reason, "start it", START + 1_500)
    catalog.jobs.set_state(job(connection).definition.id, JobState.STOPPED, why)


def test_a_pipe_is_shown_with_its_stages(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p {SOURCE} with processor ('processor'='do-nothing-processor') {SINK}")
    connection.execute(f"create pipe `A` {SOURCE} with sink ('sink.b'='2', 'sink'='DO-NOTHING-sink', 'sink.a'='1')")
    first, second = shown(connection)
    assert first["ID"] == "A"
    assert first["PipeSink"] == "{sink=DO-NOTHING-sink, sink.a=1, sink.b=2}"
    assert first["PipeProcessor"] == "{}"
    assert second == {
        "ID": "p",
        "CreationTime": "2023-11-14T22:13:20.000Z",
        "State": "RUNNING",
        "PipeSource": "{source=do-nothing-source}",
        "PipeProcessor": "{processor=do-nothing-processor}",
        "PipeSink": "{sink=do-nothing-sink}",
        "ExceptionMessage": "",
        "RemainingEventCount": "Unknown",
        "EstimatedRemainingSeconds": "Unknown",
    }
    assert shown(connection, "show pipe p") == [second]
    assert shown(connection, "show pipe P") == []


def test_times_are_in_the_time_zone_of_the_settings(tmp_path: Path) -> None:
    settings = headrace.settings.load(home=tmp_path / "home", timezone="Asia/Shanghai")
    with headrace.connect(settings=settings, dialect="iotdb", clock=headrace.ManualClock(START)) as connection:
        connection.execute(f"create pipe p {SOURCE} {SINK}")
        assert shown(connection)[0]["CreationTime"] == "2023-11-15T06:13:20.000+08:00"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"create pipe __p {SINK}", r'create pipe __p, pipe name starting with "__" are not allowed to be created\.'),
        ("alter pipe __p", r'alter pipe __p, pipe name starting with "__" are not allowed to be altered\.'),
        ("start pipe __p", "allowed to be started"),
        ("stop pipe __p", "allowed to be stopped"),
        ("drop pipe __p", "allowed to be dropped"),
        ("create pipe p with source ('extractor'='Invalid') with sink ('sink'='x')", "PipePlugin INVALID has not been registered"),
        (f"create pipe p {SOURCE} with processor ('processor'='x') {SINK}", "PipePlugin X has not been registered"),
        (f"create pipe p {SOURCE} with sink ('sink'='iotdb-source')", "PipePlugin IOTDB-SOURCE has not been registered"),
        (f"create pipe if not exists p {SOURCE} with sink ('connector.sink'='x')", "PipePlugin X has not been registered"),
        (f"create pipe p {SOURCE} with sink ('sink'='opc-ua-sink')", "PipePlugin OPC-UA-SINK is not supported"),
    ],
)
def test_an_invalid_pipe_is_refused(connection: headrace.Connection, sql: str, message: str) -> None:
    with pytest.raises((ProgrammingError, NotSupportedError), match=message) as refused:
        connection.execute(sql)
    assert refused.value.status == 1107
    assert refused.value.hint
    assert shown(connection) == []


def test_rows_of_tables_are_written_back_under_new_names_only(connection: headrace.Connection) -> None:
    stages = "with source ('source'='table-source', 'database'='power', 'table'='meters') {} with sink ('sink'='write-back-sink')"
    with pytest.raises(ProgrammingError, match="write-back-sink cannot write what table-source reads") as raised:
        connection.execute(f"create pipe p1 {stages.format('')}")
    assert "renames devices" in raised.value.hint
    for processor in (
        "'processor'='count-point-processor', 'output-series'='root.out.n'",
        "'processor'='aggregate-processor', 'operators'='avg', 'output.database'='root.out'",
    ):
        check_stages(
            connection.session.context,
            {
                PipeStage.SOURCE: {"source": "table-source", "database": "power", "table": "meters"},
                PipeStage.PROCESSOR: dict(pair.replace("'", "").split("=") for pair in processor.split(", ")),
                PipeStage.SINK: {"sink": "write-back-sink"},
            },
        )
    with headrace.connect(settings=connection.session.context.settings) as tables:
        tables.execute("CREATE DATABASE power")
        tables.execute("CREATE TABLE power.meters (ts TIMESTAMP, v INT)")
    connection.execute(f"create pipe p1 with source ('source'='table-source', 'database'='power', 'table'='meters') {SINK}")
    with pytest.raises(ProgrammingError, match="write-back-sink cannot write"):
        connection.execute("alter pipe p1 replace sink ('sink'='write-back-sink')")
    connection.execute("drop pipe p1")


@pytest.mark.parametrize(
    ("sql", "status", "message"),
    [
        ("start pipe nope", 1107, "Failed to start pipe nope, the pipe does not exist"),
        ("stop pipe nope", 1107, "Failed to stop pipe nope, the pipe does not exist"),
        ("drop pipe nope", 1806, "Failed to drop pipe nope. Failures: nope does not exist."),
        ("alter pipe nope modify sink ()", 1107, "Failed to alter pipe nope, pipe not found in system."),
    ],
)
def test_a_pipe_that_does_not_exist_is_an_error(connection: headrace.Connection, sql: str, status: int, message: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        connection.execute(sql)
    assert refused.value.message == f"{status}: {message}"
    assert refused.value.hint


def test_statements_if_exists_ignore_what_is_missing(connection: headrace.Connection) -> None:
    connection.execute("drop pipe if exists nope")
    connection.execute("alter pipe if exists nope modify sink ('sink'='x')")
    assert shown(connection) == []


def test_names_are_unique_and_keep_their_case(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    connection.execute(f"create pipe P {SOURCE} {SINK}")
    created = shown(connection, "show pipe p")
    with pytest.raises(ExistsError, match="1107: Failed to create pipe p, the pipe with the same name has been created"):
        connection.execute(f"create pipe p {SOURCE} {SINK}")
    connection.execute(f"create pipe if not exists p {SOURCE} with sink ('sink'='do-nothing-sink', 'a'='b')")
    assert shown(connection, "show pipe p") == created


def test_a_pipe_stops_and_starts(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    for statement, state in (("start", "RUNNING"), ("stop", "STOPPED"), ("stop", "STOPPED"), ("start", "RUNNING")):
        connection.execute(f"{statement} pipe p")
        assert shown(connection)[0]["State"] == state
    connection.execute("drop pipe p")
    assert shown(connection) == []


def test_why_a_pipe_has_failed_is_shown_until_it_starts(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    stop(connection)
    row = shown(connection)[0]
    assert row["State"] == "STOPPED"
    assert row["ExceptionMessage"] == ("nodeIds: [1], 2023-11-14T22:13:21.500Z, [OPERATIONAL] the receiver is down (start it)")
    connection.execute("start pipe p")
    row = shown(connection)[0]
    assert (row["State"], row["ExceptionMessage"]) == ("RUNNING", "")


def test_what_remains_is_estimated(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    catalog = connection.session.context.catalog
    progress = JobProgress(Position(3, {}), updated=START, counters=JobCounters(rows_out=5, rows_pending=0))
    catalog.jobs.set_progress(job(connection).definition.id, progress)
    row = shown(connection)[0]
    assert (row["RemainingEventCount"], row["EstimatedRemainingSeconds"]) == ("0", "0.00")
    catalog.jobs.set_progress(job(connection).definition.id, replace(progress, counters=JobCounters(rows_pending=7)))
    row = shown(connection)[0]
    assert (row["RemainingEventCount"], row["EstimatedRemainingSeconds"]) == ("7", "Unknown")


def test_altering_merges_or_replaces_and_renews(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p with source ('source'='do-nothing-source', 'source.a'='1', 'b'='2') {SINK}")
    id, progress = job(connection).definition.id, JobProgress(Position(3, {"a": 1}), updated=START)
    connection.session.context.catalog.jobs.set_progress(id, progress)
    stop(connection)
    connection.clock.advance(1_000)
    connection.execute("alter pipe p modify source ('extractor.a'='3') replace sink ('sink'='do-nothing-sink', 'c'='4')")
    row = shown(connection)[0]
    assert row["PipeSource"] == "{b=2, extractor.a=3, source=do-nothing-source}"
    assert row["PipeSink"] == "{c=4, sink=do-nothing-sink}"
    assert (row["State"], row["ExceptionMessage"]) == ("RUNNING", "")
    assert row["CreationTime"] == "2023-11-14T22:13:21.000Z"
    record = job(connection)
    assert (record.definition.id, record.progress) == (id, progress)
    assert record.definition.sql == (
        "CREATE PIPE p WITH SOURCE ('source'='do-nothing-source', 'b'='2', 'extractor.a'='3') "
        "WITH SINK ('sink'='do-nothing-sink', 'c'='4')"
    )


def test_a_pipe_that_the_user_has_stopped_stays_so_when_it_is_altered(connection: headrace.Connection) -> None:
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    stop(connection)
    connection.execute("stop pipe p")
    connection.execute("alter pipe p")
    row = shown(connection)[0]
    assert (row["State"], row["ExceptionMessage"]) == ("STOPPED", "")
    assert job(connection).desired is DesiredState.PAUSED


def test_altering_to_what_is_invalid_changes_nothing(connection: headrace.Connection, remote: str) -> None:
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    before = shown(connection)
    for sink in ("'sink'='x'", f"{remote}, 'port'='0'", f"{remote}, 'password'='wrong'"):
        with pytest.raises(Error):
            connection.execute(f"alter pipe p replace sink ({sink})")
        assert shown(connection) == before


def test_the_receiver_has_to_answer(connection: headrace.Connection, remote: str) -> None:
    with pytest.raises(OperationalError) as refused:
        connection.execute(f"create pipe p {SOURCE} with sink ({remote}, 'password'='hunter3')")
    assert refused.value.message == "1107: the receiver refuses ******"
    assert "hunter3" not in str(refused.value)
    assert shown(connection) == []
    connection.execute(f"create pipe p {SOURCE} with sink ({remote}, 'password'='hunter2')")
    connection.execute("explain " + f"create pipe q {SOURCE} with sink ({remote}, 'password'='wrong')")
    assert RemoteSink.handshakes == ["hunter3", "hunter2"]
    assert RemoteSink.closed == 2


def test_attributes_are_checked_before_the_receiver(connection: headrace.Connection, remote: str) -> None:
    with pytest.raises(ProgrammingError, match=r"1107: sink\.port must be > 0, but got 0"):
        connection.execute(f"create pipe p {SOURCE} with sink ({remote}, 'sink.port'='0')")
    assert RemoteSink.handshakes == []


def test_passwords_are_shown_nowhere(tmp_path: Path, remote: str) -> None:
    home = tmp_path / "home"
    with headrace.connect(home, dialect="iotdb", clock=headrace.ManualClock(START)) as connection:
        statement = f"create pipe p {SOURCE} with sink ({remote}, 'sink.password'='hunter2', 'sink.user'='me')"
        lines = [line for (line,) in connection.execute(f"explain {statement}")]
        assert any("{sink=remote-sink, sink.password=******, sink.user=me}" in line for line in lines)
        connection.execute(statement)
        connection.execute("alter pipe p modify sink ('connector.password'='hunter2')")
        row = shown(connection)[0]
        assert row["PipeSink"] == "{connector.password=******, sink=remote-sink, sink.user=me}"
        definition = job(connection).definition
        assert "'connector.password'='******'" in definition.sql
        resolved = secrets.resolve(definition.pipe.sink, REMOTE.secrets, connection.session.context.settings, administrator())
        assert resolved["connector.password"] == "hunter2"
        connection.execute("alter pipe p modify source ('a'='b')")
        assert job(connection).definition.pipe.sink == definition.pipe.sink
    with sqlite3.connect(home / "catalog.db") as catalog:
        dump = "\n".join(catalog.iterdump())
    assert "remote-sink" in dump
    assert "hunter2" not in dump
    assert all(b"hunter2" not in file.read_bytes() for file in home.rglob("*") if file.is_file())


def test_errors_do_not_show_passwords(connection: headrace.Connection) -> None:
    with pytest.raises(ProgrammingError) as refused:
        connection.execute(f"create pipe p {SOURCE} with sink ('password'=\n 'hunter2' x)")
    assert "line 2, column 12" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_another_password_is_noticed(connection: headrace.Connection, remote: str) -> None:
    connection.execute(f"create pipe p {SOURCE} with sink ({remote}, 'password'='hunter2')")
    first = job(connection).definition
    connection.execute("alter pipe p modify sink ('password'='hunter2')")
    second = connection.session.context.catalog.jobs.all(kind=PIPE)[0].definition
    assert first.sql == second.sql
    assert first.pipe != second.pipe


def test_a_password_may_be_in_the_environment_of_the_driver(
    connection: headrace.Connection, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(f"create pipe p {SOURCE} with sink ({remote}, 'password'='secret:PLANT')")
    assert RemoteSink.handshakes == []  # only the driver has the secret
    assert shown(connection)[0]["PipeSink"] == "{password=secret:PLANT, sink=remote-sink}"
    monkeypatch.setenv("HEADRACE_SECRET_PLANT", "hunter2")
    connection.execute("alter pipe p modify sink ('a'='b')")
    assert RemoteSink.handshakes == ["hunter2"]
    with pytest.raises(Error, match="1107: a secret cannot have the name KEY"):
        connection.execute("alter pipe p modify sink ('password'='secret:KEY')")


def test_pipes_with_the_same_sink_are_found(connection: headrace.Connection, remote: str) -> None:
    for name in ("b", "a"):
        connection.execute(f"create pipe {name} {SOURCE} with sink ({remote}, 'password'='hunter2')")
    connection.execute(f"create pipe c {SOURCE} {SINK}")
    for word in ("sink", "connector"):
        assert [row["ID"] for row in shown(connection, f"show pipes where {word} used by b")] == ["a", "b"]
    assert shown(connection, "show pipes where sink used by nope") == []


def test_rights_are_those_on_pipes(connection: headrace.Connection) -> None:
    lines = [line for (line,) in connection.execute(f"explain create pipe p {SOURCE} {SINK}")]
    assert lines[-1] == "needs the right to create pipe p, describe pipe p"
    connection.execute(f"create pipe p {SOURCE} {SINK}")
    for statement, action in (("stop", "operate"), ("start", "operate"), ("alter", "alter"), ("drop", "drop")):
        lines = [line for (line,) in connection.execute(f"explain {statement} pipe p")]
        assert f"{action} pipe p" in lines[-1]


def test_the_kind_has_its_parts() -> None:
    assert callable(kind_of(PIPE).sources())
