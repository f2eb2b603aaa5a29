"""Several snodes that share the jobs of a catalog: the plan of moves, and drivers as real processes."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.context import Context
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.jobs import JobState
from headrace.runtime.context import open_context
from headrace.runtime.driver import Driver
from headrace.runtime.metrics import Histogram
from headrace.runtime.sharing import plan_moves, port_of
from headrace.runtime.snode import Exit
from headrace.settings import Settings, load
from headrace.streams.kind import STREAM
from tests.runtime.meters import START, Meters, readings
from tests.runtime.test_snode import context, settings, start, until
from tests.support.jobs import Job

__all__ = ["context", "settings", "start"]

STREAMS = 6
names = st.sampled_from(["a", "b", "c", "d"])


@given(owners=st.dictionaries(st.integers(0, 99).map(str), names, max_size=20), alive=st.sets(names, min_size=1))
def test_moves_end_with_equal_shares_and_move_no_job_without_need(owners: dict[str, str], alive: set[str]) -> None:
    moved = dict(owners)
    for _ in range(2):  # orphans first, then those of snodes that have too many
        plans = {name: plan_moves(name, sorted(alive), moved) for name in alive}
        taken = [job for plan in plans.values() for job in plan.take]
        assert len(taken) == len(set(taken)), "no job is taken twice"
        assert all(moved[job] not in alive for job in taken), "only jobs of dead snodes are taken"
        for name, plan in plans.items():
            assert all(moved[job] == name for job in plan.give)
            assert name not in plan.give.values()
        for name, plan in plans.items():
            moved.update(dict.fromkeys(plan.take, name))
            moved.update(plan.give)
    counts = Counter(dict.fromkeys(alive, 0)) + Counter()
    counts.update(moved.values())
    shares = [counts[name] for name in alive]
    assert sum(shares) == len(owners)
    assert max(shares) - min(shares) <= 1
    assert all(not plan_moves(name, sorted(alive), moved).give for name in alive), "equal shares stay as they are"


def test_parts_of_a_stream_are_spread_over_snodes() -> None:
    owners = dict.fromkeys(("x", "x_part1", "x_part2", "y", "z"), "a")
    assert plan_moves("a", ["a", "b"], owners).give == {"x_part1": "b", "x_part2": "b"}
    assert plan_moves("a", ["a", "b", "c"], owners).give == {"x_part1": "b", "x_part2": "c", "y": "b"}
    assert plan_moves("b", ["b", "c"], owners).take == {"x": "a", "x_part2": "a", "z": "a"}


def test_snodes_are_registered_by_dnode(context: Context) -> None:
    with headrace.connect(settings=context.settings) as connection:
        connection.execute("create snode on dnode 2")
        connection.execute("create snode on dnode 3")
        members = context.catalog.members.all()
        assert [port_of(name, members, 9000) for name in ("default", "snode2", "snode3", "another")] == [9000, 9001, 9002, 9000]
        assert port_of("snode3", members, 0) == 0
        shown = connection.execute("show snodes")
        assert [name for name, *_ in shown.description or ()] == ["id", "snode", "endpoint", "epoch", "holder", "alive", "jobs"]
        assert [(row[0], row[1], row[5]) for row in shown.fetchall()] == [
            (1, "default", False),
            (2, "snode2", False),
            (3, "snode3", False),
        ]
        for statement, error in [
            ("create snode on dnode 2", ExistsError),
            ("drop snode on dnode 4", NotFoundError),
            ("drop snode on dnode 1", IntegrityError),
        ]:
            with pytest.raises(error) as caught:
                connection.execute(statement)
            assert caught.value.span is not None
        connection.execute("drop snode on dnode 2")
        assert [row[1] for row in connection.execute("show snodes").fetchall()] == ["default", "snode3"]


def test_the_jobs_of_a_dropped_snode_move_to_the_first_one(context: Context) -> None:
    meters = Meters.create(context)
    stream = meters.create_stream()
    context.catalog.members.create(2, "default")
    assert context.catalog.jobs.move(stream, "default", "snode2")
    assert not context.catalog.jobs.move(stream, "default", "snode2"), "its owner is another one by now"
    context.catalog.members.drop(2)
    assert context.catalog.jobs.by_id(stream).definition.snode == "default"


def test_a_lease_is_newer_than_those_of_all_snodes(context: Context) -> None:
    leases = context.catalog.leases
    epochs = []
    for name in ("default", "snode2", "default", "snode2"):
        lease = leases.acquire(name, "process", 60_000)
        assert lease is not None
        epochs.append(lease.epoch)
    assert epochs == sorted(set(epochs))


@pytest.mark.spark
def test_a_connection_runs_the_streams_of_snodes_that_are_not_alive(context: Context) -> None:
    meters = Meters.create(context)
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    context.catalog.members.create(2, "default")
    context.catalog.jobs.move(stream, "default", "snode2")
    context.catalog.leases.acquire("snode2", "elsewhere:1:x", 0)
    meters.write(readings(30))
    with headrace.connect(settings=context.settings) as connection:
        connection.settle()
    assert meters.results() == meters.expected()
    assert context.catalog.jobs.by_id(stream).definition.snode == "default"


def create_streams(context: Context) -> list[str]:
    meters = Meters(context)
    return [create_stream(meters, number) for number in range(STREAMS)]


def create_stream(meters: Meters, number: int) -> str:
    from headrace.model.statements import CreateStream
    from headrace.sql import parse
    from headrace.streams import lifecycle
    from headrace.streams.definition.define import define

    statement = parse(
        f"CREATE STREAM s{number} TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO out{number} AS "
        f"SELECT _wstart, count(*) n, sum(v) total, max(v) high FROM meters PARTITION BY tbname INTERVAL(1m)"
    )
    assert isinstance(statement, CreateStream)
    plan = define(statement, meters.context.catalog, "db")
    lifecycle.create(meters.context, plan, plan.definition(created=meters.context.clock.now()))
    return plan.id


def results(context: Context, number: int) -> list[tuple[Any, ...]]:
    target = context.catalog.tables.get("db", f"out{number}")
    rows = context.tables.scan(target)
    return sorted(zip(*(rows[name].to_pylist() for name in ("_wstart", "n", "total", "high")), strict=True))


def are_complete(context: Context, meters: Meters) -> bool:
    expected = meters.expected()
    return all(results(context, number) == expected for number in range(STREAMS))


def owners(context: Context) -> Counter[str]:
    return Counter(record.definition.snode for record in context.catalog.jobs.all())


def work(driver: Driver) -> None:
    """Let a driver do all that is due, in this thread."""
    driver.reconcile()
    while driver.host.poll():
        driver.reconcile()
    driver.reconcile()


def test_a_stream_that_moves_between_drivers_continues_and_the_old_driver_is_fenced(context: Context) -> None:
    meters = Meters.create(context)
    streams = create_streams(context)
    meters.write(readings(60))
    drivers = [
        Driver(replace(context, epoch=epoch), name, fills=True, batches=Histogram(), ended=lambda: None)
        for epoch, name in ((1, "default"), (2, "snode2"))
    ]
    first, second = drivers
    work(first)
    assert are_complete(context, meters)
    first.give(dict.fromkeys(streams[:3], "snode2"))
    work(first)
    assert owners(context) == {"default": 3, "snode2": 3}
    meters.write(readings(60, seed=1, start=START + 1_000_000))
    for driver in drivers:
        work(driver)
    assert are_complete(context, meters)

    for stream in streams[3:]:
        assert context.catalog.jobs.move(stream, "default", "snode2"), "taken while the first driver still runs it"
    work(second)
    meters.write(readings(60, seed=2, start=START + 2_000_000))
    while first.host.poll():
        pass
    assert first.host.running == frozenset(), "it drops the streams that it has lost, and lives on"
    work(second)
    assert are_complete(context, meters)
    for driver in drivers:
        driver.host.close()


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_snodes_share_streams_and_survivors_take_those_of_a_dead_one(context: Context, start: Callable[..., Job]) -> None:
    meters = Meters.create(context)
    create_streams(context)
    context.catalog.members.create(2, "default")
    first = start("snode", "--snode", "default")
    meters.write(readings(60))
    until(lambda: are_complete(context, meters), "the first snode does not compute", (first,))
    assert owners(context) == {"default": STREAMS}, "an snode that does not run gets no stream"

    second = start("snode", "--snode", "snode2")
    until(lambda: owners(context) == {"default": 3, "snode2": 3}, "the second snode does not get its share", (first, second))
    meters.write(readings(60, seed=1, start=START + 1_000_000))
    until(lambda: are_complete(context, meters), "shared streams are not computed", (first, second))

    second.signal(signal.SIGSTOP)
    meters.write(readings(60, seed=2, start=START + 2_000_000))
    until(lambda: owners(context) == {"default": STREAMS}, "nobody takes the streams of a frozen snode", (first,))
    until(lambda: are_complete(context, meters), "streams of the frozen snode do not continue", (first,))
    meters.delete("m1", START + 2_000_000, START + 2_100_000)
    until(lambda: are_complete(context, meters), "the survivor does not follow", (first,))

    second.signal(signal.SIGCONT)
    until(lambda: owners(context) == {"default": 3, "snode2": 3}, "the second snode does not get its share back", (first, second))
    meters.write(readings(60, seed=3, start=START + 3_000_000))
    until(lambda: are_complete(context, meters), "streams that moved back are not computed", (first, second))

    first.signal(signal.SIGKILL)
    assert first.ended() == -signal.SIGKILL
    meters.write(readings(60, seed=4, start=START + 4_000_000))
    until(lambda: owners(context) == {"snode2": STREAMS}, "nobody takes the streams of a killed snode", (second,))
    until(lambda: are_complete(context, meters), "streams of the killed snode do not continue", (second,))
    assert all(record.state is JobState.RUNNING for record in context.catalog.jobs.all())

    with headrace.connect(settings=context.settings) as connection:
        connection.execute("drop snode on dnode 2")
    assert second.ended() == Exit.OK, "an snode that was dropped ends"
    assert owners(context) == {"default": STREAMS}


@pytest.mark.spark
def test_a_stream_continues_in_another_home_over_the_same_warehouse_and_catalog(tmp_path: Path) -> None:
    warehouse, url = tmp_path / "warehouse", f"sqlite:///{tmp_path / 'catalog.db'}"

    def home(name: str) -> Settings:
        return load(home=tmp_path / name, warehouse=str(warehouse), catalog_url=url)

    query = "select _wstart, count(*) n, sum(a) total from m partition by tbname session(ts, 10s)"
    with headrace.connect(settings=home("one")) as one:
        one.execute("create database d")
        one.execute("create stable d.m (ts timestamp, a int) tags (g int)")
        one.execute("use d")
        one.execute(f"create stream s trigger window_close ignore expired 0 ignore update 0 into o as {query}")
        one.execute(f"insert into m1 using m tags (1) values ({START}, 1) ({START + 5000}, 2)")
        one.settle()
        assert one.execute("select total from o").fetchall() == []
    for file in (tmp_path / "one").rglob("*"):
        assert file.is_dir() or "state" not in file.parts, "the first home holds no state that the second would miss"
    with headrace.connect(settings=home("two"), database="d") as two:
        two.execute(f"insert into m1 values ({START + 9000}, 4) ({START + 60_000}, 8)")
        two.settle()
        assert two.execute("select n, total from o").fetchall() == [(3, 7)], "the open session was in the checkpoint"
        job = two.session.context.catalog.jobs.get("d", "s", STREAM)
        events = two.session.context.catalog.events.all("job", job.definition.id)
        assert not [event for event in events if event.kind == "STATE_RESTORED"], "it was read, not computed again"
    with open_context(home("three")).catalog as catalog:
        assert catalog.jobs.get("d", "s", STREAM).state is JobState.RUNNING
