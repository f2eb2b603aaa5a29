"""Conflicts with the schema of an IoTDB receiver stop a pipe once they have lasted for the time of its sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headrace
from headrace.jobs import hosts
from headrace.jobs.hosts import Driving
from headrace.model.jobs import JobRecord, JobState
from headrace.model.time import Precision
from headrace.pipes.iotdb import receiver
from headrace.pipes.iotdb.messages import Status
from headrace.pipes.kind import PIPE
from headrace.runtime.job_host import JobHost
from headrace.settings import load

CONFLICT, SUCCESS = 1810, 200


class OpenNodes:
    """The nodes of a receiver that are always connected."""

    def __init__(self, *_: Any) -> None:
        """Connect to nothing."""

    def connect(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def run(self, action: Callable[[Any], Any]) -> Any:
        """Return the result of an action at the only node."""
        return action(SimpleNamespace(node="receiver", precision=Precision.MILLISECOND))


class ConflictingReceiver:
    """A receiver whose answers and clock a test sets, and the pipe that delivers to it."""

    def __init__(self, connection: headrace.Connection) -> None:
        self.code, self.now = CONFLICT, 100.0
        self.jobs = connection.session.context.catalog.jobs
        self.pipes = JobHost(Driving(connection.session.context))

    @property
    def record(self) -> JobRecord:
        return self.jobs.get("", "p", PIPE)

    def run(self) -> JobRecord:
        """Run the pipe until it has nothing to do or is STOPPED, and return its record."""
        self.pipes.reconcile([self.record])
        while self.pipes.poll(None):
            pass
        return self.record

    def retry_after(self, seconds: float) -> JobRecord:
        """Run the pipe again later, as the supervision does with one that a transient error has stopped."""
        self.now += seconds
        self.jobs.set_state(self.record.definition.id, JobState.RUNNING)
        return self.run()


def has_given_up(record: JobRecord) -> bool:
    """Return whether a pipe is STOPPED for good, False if it will be tried again."""
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    return not record.reason.transient


def test_a_conflict_stops_a_pipe_for_good_once_it_has_lasted_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(receiver, "Nodes", OpenNodes)
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path)) as connection:
        sink = "'sink'='iotdb-thrift-sink', 'ip'='127.0.0.1', 'port'='1', 'exception.conflict.retry-max-time-seconds'='60'"
        connection.execute("insert into root.a.d(time, v) values (1, 1)")
        connection.execute(f"create pipe p with source ('path'='root.a.**', 'inclusion'='data.insert') with sink ({sink})")
        remote = ConflictingReceiver(connection)
        monkeypatch.setattr(receiver, "transfer", lambda *_: Status(code=remote.code, message="conflict"))
        monkeypatch.setattr(receiver, "time", SimpleNamespace(monotonic=lambda: remote.now))
        assert not has_given_up(remote.run())
        assert not has_given_up(remote.retry_after(59))
        assert has_given_up(remote.retry_after(1))
        connection.execute("start pipe p")
        assert not has_given_up(remote.run())
        assert not has_given_up(remote.retry_after(59))
        remote.code = SUCCESS
        assert remote.retry_after(100).state is JobState.RUNNING
        remote.code = CONFLICT
        connection.execute("insert into root.a.d(time, v) values (2, 2)")
        assert not has_given_up(remote.run())
        connection.execute("stop pipe p")
        remote.run()
        remote.now += 100
        connection.execute("start pipe p")
        assert not has_given_up(remote.run())
        remote.pipes.close()
