"""Processors of users: their state belongs to the batch that is delivered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.code.hosts import current_hosts
from headrace.errors import UserCodeError
from headrace.model.pipes import PipeStage
from headrace.pipes.hosted.processor import HostedProcessor
from tests.code.pipe_samples import instance
from tests.pipes.plugin_samples import insert, shown


@pytest.fixture(autouse=True)
def no_hosts_remain() -> Iterator[None]:
    """End the hosts of a test."""
    yield
    current_hosts().close()


def processor(folder: Path, name: str = "Scale") -> HostedProcessor:
    return HostedProcessor(instance(folder, name, PipeStage.PROCESSOR, {"factor": "2"}))


def stored(one: HostedProcessor) -> dict[str, str]:
    state = one.state()
    assert state is not None
    return {row["key"]: row["value"] for row in state["store"].to_pylist()}


def test_rows_are_processed_and_the_store_is_the_state(tmp_path: Path) -> None:
    one = processor(tmp_path)
    assert one.state() is None
    assert one.process([], 0) == ()
    assert shown(one.process([insert({1: 1.5}), insert({2: 2.0}, "root.a.d2")], 0)) == [
        ("root.a.d1", 1, {"s": 3.0, "seen": 1}),
        ("root.a.d2", 2, {"s": 4.0, "seen": 2}),
    ]
    assert stored(one) == {"created": "1", "rows": "2"}
    assert one.wake_at is None


def test_a_processor_without_a_store_has_no_state(tmp_path: Path) -> None:
    one = processor(tmp_path, "FastScale")
    assert shown(one.process([insert({1: 1.5})], 0)) == [("root.a.d1", 1, {"s": 3.0})]
    assert one.state() is None


def test_a_failure_changes_neither_state_nor_later_results(tmp_path: Path) -> None:
    one = processor(tmp_path)
    one.process([insert({1: 1.5})], 0)
    before = stored(one)
    with pytest.raises(UserCodeError, match=r"processor plugin SCALE of pipe p failed on root\.a\.d2 at time 3: ValueError"):
        one.process([insert({2: 1.5}), insert({3: 9_999.0}, "root.a.d2")], 0)
    assert stored(one) == before
    assert [values["seen"] for _, _, values in shown(one.process([insert({2: 1.5})], 0))] == [2]


def test_a_host_that_dies_gets_the_store_of_the_last_batch(tmp_path: Path) -> None:
    one = processor(tmp_path)
    one.process([insert({1: 1.5})], 0)
    with pytest.raises(UserCodeError, match="SCALE of pipe p failed on 2 rows: its code host ended with status 3"):
        one.process([insert({2: 1.5}), insert({3: -9_999.0})], 0)
    assert [values["seen"] for _, _, values in shown(one.process([insert({2: 1.5})], 0))] == [2]
    current_hosts().close()
    assert [values["seen"] for _, _, values in shown(one.process([insert({3: 1.5})], 0))] == [3]
    assert stored(one) == {"created": "3", "rows": "3"}


def test_a_batch_is_the_same_after_a_crash(tmp_path: Path) -> None:
    first = processor(tmp_path)
    first.process([insert({1: 1.5})], 0)
    state = first.state()
    assert state is not None
    delivered = shown(first.process([insert({2: 1.5, 3: 2.5})], 0))
    second = processor(tmp_path)
    second.restore(state)
    assert second.state() == state
    assert shown(second.process([insert({2: 1.5, 3: 2.5})], 0)) == delivered
    second.restore(state)
    assert shown(second.process([insert({2: 1.5, 3: 2.5})], 0)) == delivered
