"""Sinks of users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.code.hosts import HostLimits, current_hosts
from headrace.errors import UserCodeError
from headrace.model.pipes import PipeStage
from headrace.pipes import shared_sinks
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, StatementEvent
from headrace.pipes.hosted.sink import HostedSink
from headrace.pipes.plugins import Delivery
from headrace.pipes.shared_sinks import SharedSinks
from tests.code.pipe_samples import instance
from tests.pipes.plugin_samples import insert, rows

TIMEOUT = r"it took longer than 1 s and was ended"


@pytest.fixture(autouse=True)
def no_hosts_remain() -> Iterator[None]:
    """End the hosts of a test."""
    yield
    current_hosts().close()


def sink(folder: Path) -> HostedSink:
    return HostedSink(instance(folder, "Recorder", PipeStage.SINK, {"path": str(folder / "log")}))


def recorded(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def test_a_sink_connects_delivers_and_closes(tmp_path: Path) -> None:
    one = sink(tmp_path)
    one.handshake()
    statement = StatementEvent("create database root.a", "schema.database.create")
    one.transfer(Delivery("1", 7, [insert({1: 1.5}, "root.a.d2"), DeleteEvent(rows({3: 0.5})), statement]))
    one.heartbeat()
    one.close()
    assert recorded(tmp_path) == [
        ["customize", "ada"],
        ["handshake"],
        ["insert", "1-7-0", "root.a.d2", [[1, {"s": 1.5}]], True],
        ["delete", "1-7-1", [[3]]],
        ["schema", "1-7-2", statement.sql, statement.category],
        ["heartbeat"],
        ["close"],
    ]


def test_a_failure_names_the_rows_and_the_next_delivery_connects_again(tmp_path: Path) -> None:
    one = sink(tmp_path)
    one.handshake()
    with pytest.raises(UserCodeError, match=r"sink plugin RECORDER of pipe p failed on root\.a\.d1 at time 666: ConnectionError"):
        one.transfer(Delivery("1", 1, [insert({666: 1.5})]))
    one.transfer(Delivery("1", 1, [insert({1: 1.5})]))
    begun = ["customize", "handshake"]
    assert [line[0] for line in recorded(tmp_path)] == [*begun, "close", *begun, "insert"]


def test_a_host_that_dies_fails_one_delivery(tmp_path: Path) -> None:
    one = sink(tmp_path)
    one.handshake()
    with pytest.raises(UserCodeError, match="sink plugin RECORDER of pipe p failed on 1 row: its code host ended with status 4"):
        one.transfer(Delivery("1", 1, [insert({667: 1.5})]))
    one.transfer(Delivery("1", 1, [insert({1: 1.5})]))
    current_hosts().close()
    one.heartbeat()
    begun = ["customize", "handshake"]
    assert [line[0] for line in recorded(tmp_path)] == [*begun, *begun, "insert", *begun, "heartbeat"]


def test_a_heartbeat_that_fails_connects_again_and_others_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_sinks, "HEARTBEAT_S", 0.0)
    shared = SharedSinks()
    one = shared.take(PipeAttributes({}), "1", lambda: sink(tmp_path))
    shared.beat()
    one.transfer(Delivery("1", 1, [insert({1: 1.5})]))
    assert shared.beat() == {"1": None}
    (tmp_path / "log.away").touch()
    for _ in range(2):
        assert "the receiver is away" in str(shared.beat()["1"])
    (tmp_path / "log.away").unlink()
    assert shared.beat() == {"1": None}
    shared.give_back(one, "1")
    begun = ["customize", "handshake"]
    failed = ["heartbeat", "close", *begun]
    assert [line[0] for line in recorded(tmp_path)] == [*begun, "insert", "heartbeat", *failed, *failed, "heartbeat", "close"]


def test_attempts_of_a_sink_that_fails_share_a_process(tmp_path: Path) -> None:
    shared = SharedSinks()
    one = shared.take(PipeAttributes({}), "1", lambda: sink(tmp_path))
    for _ in range(3):
        with pytest.raises(UserCodeError, match="ConnectionError"):
            one.transfer(Delivery("1", 1, [insert({666: 1.5})]))
    one.transfer(Delivery("1", 1, [insert({1: 1.5})]))
    shared.give_back(one, "1")
    processes = (tmp_path / "log.processes").read_text().split()
    assert (len(processes), len(set(processes))) == (4, 1)


@pytest.mark.parametrize(("act", "message"), [("loop", TIMEOUT), ("exit", "status 5"), ("allocate", "more memory than allowed")])
def test_a_hostile_sink_fails_its_delivery(tmp_path: Path, act: str, message: str) -> None:
    limits = HostLimits(memory_bytes=128 << 20, timeout_s=1.0 if act == "loop" else 60.0)
    one = HostedSink(instance(tmp_path, "Hostile", PipeStage.SINK, {"act": act}, limits))
    one.handshake()
    for _ in range(2):
        with pytest.raises(UserCodeError, match=message):
            one.transfer(Delivery("1", 1, [insert({1: 1.5})]))
