"""DROP STREAM: nothing of the stream reaches its target afterwards, and nothing of it is left, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyarrow import fs

from headrace.errors import FencedError, NotFoundError
from headrace.history.backfill import fill_history
from headrace.model.failpoints import FailpointError, armed, calling
from headrace.runtime.epochs import target_epoch
from headrace.storage.delta.outbox import FOLDER
from headrace.storage.object_store import file_system
from headrace.streams import lifecycle
from headrace.streams.definition.define import StreamPlan
from headrace.streams.leftovers import remove_leftovers
from tests.streams.environment import StreamEnvironment

STREAM = "create stream {name} trigger at_once {options} into o as select _wstart, sum(a) total from readings interval(10s)"


def create(env: StreamEnvironment, name: str, options: str = "") -> StreamPlan:
    return env.create(STREAM.format(name=name, options=options))


def give_the_target_to_another(env: StreamEnvironment, old: StreamPlan) -> Callable[[], None]:
    """Return what drops a stream and creates one with the same target."""

    def exchange() -> None:
        lifecycle.drop(env.context, env.record(old).definition)
        create(env, "other")

    return exchange


def test_a_micro_batch_in_flight_is_not_committed_after_the_drop(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = create(env, "s")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.insert([("d0", 0, 100, None), ("d0", 20_000, 5, None)])
    with calling("storage.commit", give_the_target_to_another(env, plan)):
        env.settle({plan.id})
    assert [row[1] for row in env.results(plan)] == [1]


@pytest.mark.spark
def test_a_chunk_of_history_in_flight_is_not_committed_after_the_drop(env: StreamEnvironment) -> None:
    env.insert([("d0", 0, 1, None), ("d0", 20_000, 5, None)])
    plan = create(env, "s", "fill_history 1")
    with calling("history.commit", give_the_target_to_another(env, plan)), pytest.raises(FencedError):
        fill_history(env.context, plan.id)
    assert env.results(plan) == []


def folders(env: StreamEnvironment) -> set[str]:
    """Return the ids of the streams that have a state or messages."""
    names = set()
    for uri in (env.context.state_uri, f"{env.tables.uri}/{FOLDER}"):
        system, root = file_system(uri)
        names |= {info.base_name for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True))}
    return names


@pytest.mark.parametrize("point", ["streams.drop.requested", "streams.drop.retired", "streams.drop.forgotten"])
def test_a_drop_that_was_interrupted_is_completed(offline_env: StreamEnvironment, point: str) -> None:
    env = offline_env
    plan = create(env, "s")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.tables.outbox(plan.id).open()
    definition = env.record(plan).definition
    with armed(f"{point}:1:raise"), pytest.raises(FailpointError):
        lifecycle.drop(env.context, definition)
    assert target_epoch(env.context, env.record(plan)) == 0, "no lease has to be newer than the drop"
    env.insert([("d0", 20_000, 5, None)])
    env.settle()
    assert [row[1] for row in env.results(plan)] == [1]
    lifecycle.drop(env.context, definition)
    assert folders(env) == set()
    with pytest.raises(NotFoundError):
        env.record(plan)


def change(env: StreamEnvironment, plan: StreamPlan, point: str) -> None:
    """Create another stream, or replace the stream, as a failpoint requires."""
    if point.startswith("streams.create"):
        env.create(STREAM.format(name="t", options="").replace(" into o ", " into o2 "))
        return
    old = env.record(plan)
    new = env.define(STREAM.format(name="s", options="fill_history 1"), replaced=old.definition)
    lifecycle.replace_stream(env.context, new, new.definition(created=old.definition.created + 1), old)


@pytest.mark.parametrize("point", ["streams.create.prepared", "streams.replace.prepared", "streams.replace.recorded"])
def test_what_crashes_leave_of_streams_is_removed_later(offline_env: StreamEnvironment, point: str) -> None:
    env = offline_env
    plan = create(env, "s")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.tables.outbox(plan.id).open()
    with armed(f"{point}:1:raise"), pytest.raises(FailpointError):
        change(env, plan, point)
    known = {record.definition.id for record in env.catalog.jobs.all()}
    leftovers = folders(env) - known
    assert bool(leftovers) == (point != "streams.replace.prepared")
    assert remove_leftovers(env.context) == 0, "their stream may be about to be recorded"
    remove_leftovers(env.context, min_age_s=0)
    assert (folders(env) - known, remove_leftovers(env.context, min_age_s=0)) == (set(), 0)
    assert plan.id not in known or plan.id in folders(env)
