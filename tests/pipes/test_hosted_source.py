"""Sources of users: what they supply is the same after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.code.hosts import current_hosts
from headrace.errors import IntegrityError, UserCodeError
from headrace.model.pipes import PipeStage
from headrace.model.positions import Offsets
from headrace.pipes.checkpoints import PipeCheckpoints
from headrace.pipes.hosted.source import HostedSource
from headrace.pipes.plugins import SourceBatch
from tests.code.pipe_samples import instance
from tests.pipes.plugin_samples import shown


@pytest.fixture(autouse=True)
def no_hosts_remain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the hosts of a test. The size of a batch does not depend on the speed of the machine."""
    monkeypatch.setattr("headrace.code.pipes.MAX_SUPPLY_SECONDS", 600.0)
    yield
    current_hosts().close()


def source(folder: Path, limit: int, *, recorded: int | None = None, epoch: int = 0, name: str = "Counter") -> HostedSource:
    """Return a source that supplies the numbers up to a limit."""
    hosted = instance(folder, name, PipeStage.SOURCE, {"limit": str(limit), "log": str(folder / "log")})
    return HostedSource(hosted, PipeCheckpoints(str(folder / "stored"), "1/source", epoch), lambda: recorded)


def read(one: HostedSource, offsets: Offsets) -> SourceBatch:
    batch = one.read(offsets)
    assert batch is not None
    return batch


def numbers(batch: SourceBatch) -> list[int]:
    return [time for _, time, _ in shown(batch.events)]


def test_batches_follow_each_other(tmp_path: Path) -> None:
    one = source(tmp_path, 2)
    assert one.has_news({})
    first = read(one, {})
    assert (numbers(first), first.offsets) == ([1, 2], {"COUNTER": 1})
    assert one.read(first.offsets) is None
    assert not one.has_news(first.offsets)
    assert one.pending(first.offsets) == (0, None)
    assert not one.has_ended(first.offsets)


def test_a_batch_is_the_same_whatever_the_plugin_supplies_now(tmp_path: Path) -> None:
    first = read(source(tmp_path, 2), {})
    again = source(tmp_path, 5)
    repeated = again.read({}, until=first.offsets)
    assert repeated is not None
    assert (numbers(repeated), repeated.offsets) == ([1, 2], first.offsets)
    assert numbers(read(again, repeated.offsets)) == [3, 4, 5]


def test_a_batch_that_was_not_delivered_is_read_again(tmp_path: Path) -> None:
    one = source(tmp_path, 2)
    assert numbers(read(one, {})) == numbers(read(one, {})) == [1, 2]


def test_a_new_instance_continues_at_the_position(tmp_path: Path) -> None:
    read(source(tmp_path, 2), {})
    current_hosts().close()
    assert numbers(read(source(tmp_path, 4), {"COUNTER": 1})) == [3, 4]


def test_a_host_that_dies_between_two_batches_is_not_noticed(tmp_path: Path) -> None:
    one = source(tmp_path, 2)
    offsets = read(one, {}).offsets
    current_hosts().close()
    assert one.read(offsets) is None
    assert (tmp_path / "log").read_text().splitlines() == ["customize p None", "start", "customize p 2", "start"]


def test_the_batch_of_the_newest_epoch_counts(tmp_path: Path) -> None:
    read(source(tmp_path, 3, epoch=2), {})
    current_hosts().close()
    old = source(tmp_path, 1, epoch=1)
    old._supply(0, old._beginning)
    assert numbers(read(source(tmp_path, 9, epoch=3), {})) == [1, 2, 3]


def test_the_plugin_is_told_what_is_delivered_and_old_batches_are_deleted(tmp_path: Path) -> None:
    one = source(tmp_path, 1)
    first = read(one, {})
    one.acknowledge(first.offsets)
    assert "acknowledge 1" in (tmp_path / "log").read_text()
    read(source(tmp_path, 2), first.offsets)
    last = source(tmp_path, 3, recorded=2)
    last.acknowledge({"COUNTER": 2})
    assert last.read({"COUNTER": 2}) is not None
    with pytest.raises(IntegrityError, match="the position of the source plugin COUNTER of pipe p is lost: its batch 1 does not"):
        HostedSource(last._instance, PipeCheckpoints(str(tmp_path / "other"), "1/source", 0)).read({"COUNTER": 1})


def test_a_pipe_that_begins_again_does_not_find_old_batches(tmp_path: Path) -> None:
    stored = PipeCheckpoints(str(tmp_path / "stored"), "1/source", 0)
    offsets: Offsets = {}
    for limit in (1, 2, 3):
        offsets = read(source(tmp_path, limit), offsets).offsets
    stored.delete_before(2)
    begun = source(tmp_path, 4)
    offsets = read(begun, {}).offsets
    assert numbers(read(source(tmp_path, 5), offsets)) == [5]
    assert numbers(read(source(tmp_path, 5), {})) == [1, 2, 3, 4]


def test_a_failure_loses_nothing(tmp_path: Path) -> None:
    one = source(tmp_path, 1)
    offsets = read(one, {}).offsets
    broken = source(tmp_path, 1, name="Forgetful")  # another plugin of the same pipe begins at its own position
    for _ in range(2):
        with pytest.raises(UserCodeError, match="source plugin FORGETFUL of pipe p failed"):
            broken.read({})
        assert broken.has_news({})
    assert numbers(read(source(tmp_path, 2), offsets)) == [2]


def test_closing_ends_the_instance(tmp_path: Path) -> None:
    one = source(tmp_path, 1)
    read(one, {})
    one.close()
    assert (tmp_path / "log").read_text().splitlines()[-1] == "close"
