from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, FencedError, IntegrityError, NotFoundError
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobCounters, JobProgress, JobRecord, JobState, StopReason
from headrace.model.positions import Position
from headrace.model.snodes import DriverStatus
from headrace.model.tables import Database, TableId
from headrace.pipes.kind import PIPE
from headrace.streams.kind import STREAM
from tests.catalog.samples import definition, supertable, with_stream
from tests.support.pipes import STAGES, add_pipe, pipe

REASON = StopReason("NOT_FOUND", "column v is gone", "ALTER TABLE … ADD COLUMN v", since=7, transient=True)
PROGRESS = JobProgress(Position(3, {"d.t": 7}), {"d.t": 2}, 2**62, 1_000_000, 40, JobCounters(9, 5, 1, 2, 1, 4, 1, 3))


@pytest.fixture
def meters(power: Catalog) -> Catalog:
    power.tables.create(supertable("meters"))
    return power


def test_a_new_stream_is_desired_running_but_not_yet_observed(meters: Catalog) -> None:
    stream = definition()
    assert meters.jobs.create(stream)
    record = JobRecord(stream, DesiredState.RUNNING, JobState.CREATED, JobProgress())
    assert meters.jobs.get("power", "avg_current", STREAM) == record
    assert meters.jobs.by_id(stream.id) == record
    assert meters.jobs.all() == [record]


def test_an_existing_stream_is_refused_unless_if_not_exists(meters: Catalog) -> None:
    meters.jobs.create(definition())
    with pytest.raises(ExistsError, match=r"stream power\.avg_current exists already"):
        meters.jobs.create(definition(id="another"))
    assert not meters.jobs.create(definition(id="another"), if_not_exists=True)
    with pytest.raises(ExistsError, match="id id-avg_current"):
        meters.jobs.create(definition(name="another", id="id-avg_current"))


def test_stream_names_are_unique_per_database(meters: Catalog) -> None:
    meters.databases.create(Database("other"))
    assert meters.jobs.create(definition())
    assert meters.jobs.create(definition(database="other", id="another", target=TableId("power", "other")))


@pytest.mark.parametrize(
    "changed", [{"database": "none"}, {"sources": (TableId("none", "meters"),)}, {"target": TableId("none", "averages")}]
)
def test_a_job_needs_its_databases(meters: Catalog, changed: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError, match="database none does not exist"):
        meters.jobs.create(definition(**changed))


def test_a_job_may_have_several_sources_and_no_target(meters: Catalog) -> None:
    meters.tables.create(supertable("feeders"))
    job = definition(sources=(TableId("power", "meters"), TableId("power", "feeders")), target=None)
    meters.jobs.create(job)
    assert meters.jobs.by_id(job.id).definition == job
    for table in ("meters", "feeders"):
        with pytest.raises(IntegrityError, match=r"stream power\.avg_current reads or fills it"):
            meters.tables.drop("power", table)


def test_a_stream_needs_its_source_but_its_target_may_follow(power: Catalog) -> None:
    with pytest.raises(NotFoundError, match=r"table power\.meters does not exist"):
        power.jobs.create(definition())
    power.tables.create(supertable("meters"))
    assert power.jobs.create(definition(target=TableId("power", "later")))


def test_streams_are_looked_up_by_name_and_target_and_counted_by_source(meters: Catalog) -> None:
    stream, other = definition(), definition("other", sources=(TableId("power", "feeders"), TableId("power", "meters")))
    meters.tables.create(supertable("feeders"))
    for one in (stream, other):
        meters.jobs.create(one)
        assert one.target is not None
        record = meters.jobs.find("power", one.name, STREAM)
        assert record == meters.jobs.of_target(one.target) == meters.jobs.get("power", one.name, STREAM)
    assert meters.jobs.find("power", "none", STREAM) is meters.jobs.find("none", "other", STREAM) is None
    assert meters.jobs.of_target(TableId("power", "meters")) is None
    assert [meters.jobs.count(STREAM, name) for name in ("power", "none")] == [2, 0]


def test_streams_are_listed_by_snode(meters: Catalog) -> None:
    meters.jobs.create(definition("b", snode="one"))
    meters.jobs.create(definition("a", snode="two"))
    assert [record.definition.name for record in meters.jobs.all()] == ["a", "b"]
    assert [record.definition.name for record in meters.jobs.all("one")] == ["b"]
    assert meters.jobs.all("three") == []


def test_definitions_are_read_once_and_again_when_another_process_changes_them(catalog: Catalog, url: str) -> None:
    with_stream(catalog)
    (first,) = catalog.jobs.all()
    with Catalog.open(url) as other:
        other.jobs.set_progress(first.definition.id, PROGRESS)
        (second,) = catalog.jobs.all()
        assert second.definition is first.definition
        assert second.progress == PROGRESS
        changed = replace(first.definition, sql="CREATE STREAM another statement")
        other.jobs.redefine(changed, user="vera")
        assert catalog.jobs.by_id(first.definition.id).definition == changed
        assert other.jobs.move(first.definition.id, first.definition.snode, "elsewhere")
        assert catalog.jobs.all()[0].definition == replace(changed, snode="elsewhere")
        other.jobs.drop(first.definition.id)
        assert catalog.jobs.all() == []


def test_the_stages_of_a_pipe_come_back_as_recorded_and_can_change_alone(catalog: Catalog, url: str) -> None:
    id = add_pipe(catalog)
    assert catalog.jobs.by_id(id).definition == pipe()
    assert catalog.jobs.get("", "out", PIPE).definition == pipe()
    with Catalog.open(url) as other:
        assert other.jobs.all()[0].definition == pipe()
        changed = replace(pipe(), pipe=replace(STAGES, sink={"sink.password": "encrypted:another"}))
        other.jobs.redefine(changed, user="vera")
    assert catalog.jobs.by_id(id).definition == changed
    assert catalog.jobs.all()[0].definition is catalog.jobs.by_id(id).definition


def test_states_reasons_and_progress_come_back_as_recorded(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.jobs.set_desired(stream.id, DesiredState.PAUSED)
    catalog.jobs.set_state(stream.id, JobState.STOPPED, REASON)
    catalog.jobs.set_progress(stream.id, PROGRESS)
    assert catalog.jobs.by_id(stream.id) == JobRecord(stream, DesiredState.PAUSED, JobState.STOPPED, PROGRESS, REASON)
    catalog.jobs.set_state(stream.id, JobState.RUNNING)
    assert catalog.jobs.by_id(stream.id).reason is None


def test_a_dropped_stream_is_missing_everywhere(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.jobs.drop(stream.id)
    catalog.jobs.drop(stream.id)
    assert catalog.jobs.all() == []
    with pytest.raises(NotFoundError):
        catalog.jobs.by_id(stream.id)
    with pytest.raises(NotFoundError):
        catalog.jobs.set_state(stream.id, JobState.RUNNING, epoch=1)
    with pytest.raises(NotFoundError):
        catalog.jobs.set_desired(stream.id, DesiredState.RUNNING)


def test_a_missing_stream_is_named_with_the_nearest_one(catalog: Catalog) -> None:
    with_stream(catalog)
    with pytest.raises(NotFoundError, match=r"stream power\.avg_curent does not exist") as caught:
        catalog.jobs.get("power", "avg_curent", STREAM)
    assert caught.value.hint == "did you mean power.avg_current?"
    with pytest.raises(NotFoundError, match="database none does not exist"):
        catalog.jobs.get("none", "avg_current", STREAM)


def test_a_driver_whose_lease_has_passed_on_can_no_longer_write(catalog: Catalog, clock: ManualClock) -> None:
    stream = with_stream(catalog)
    old = catalog.leases.acquire("default", "a", ttl_ms=100)
    assert old is not None
    catalog.jobs.set_progress(stream.id, PROGRESS, epoch=old.epoch)
    clock.advance(100)
    new = catalog.leases.acquire("default", "b", ttl_ms=100)
    assert new is not None
    with pytest.raises(FencedError, match="epoch 2"):
        catalog.jobs.set_progress(stream.id, JobProgress(), epoch=old.epoch)
    with pytest.raises(FencedError):
        catalog.jobs.set_state(stream.id, JobState.STOPPED, REASON, epoch=old.epoch)
    record = catalog.jobs.by_id(stream.id)
    assert (record.progress, record.state) == (PROGRESS, JobState.CREATED)
    catalog.jobs.set_state(stream.id, JobState.RUNNING, epoch=new.epoch)
    assert catalog.jobs.by_id(stream.id).state is JobState.RUNNING


def test_the_lease_of_another_snode_fences_no_driver(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    for holder in ("a", "b"):
        lease = catalog.leases.acquire("other", holder, ttl_ms=0)
        assert lease is not None
    catalog.jobs.set_progress(stream.id, PROGRESS, epoch=1)
    assert catalog.jobs.by_id(stream.id).progress == PROGRESS


def status(catalog: Catalog, clock: ManualClock) -> DriverStatus:
    beats = {beat.snode: beat for beat in catalog.snodes.all()}
    return DriverStatus(clock.now(), catalog.leases.get("default"), beats.get("default"))


def test_a_state_is_replaced_only_if_it_is_still_what_the_writer_saw(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    seen = catalog.jobs.by_id(stream.id)
    assert catalog.jobs.replace_state(seen, JobState.STOPPED, REASON)
    assert not catalog.jobs.replace_state(seen, JobState.RUNNING)
    stopped = catalog.jobs.by_id(stream.id)
    assert (stopped.state, stopped.reason) == (JobState.STOPPED, REASON)
    catalog.jobs.set_state(stream.id, JobState.STOPPED, replace(REASON, since=8))
    assert not catalog.jobs.replace_state(stopped, JobState.RUNNING)
    catalog.jobs.drop(stream.id)
    assert not catalog.jobs.replace_state(stopped, JobState.RUNNING)


@pytest.mark.parametrize("event", ["nothing", "renewal", "heartbeat", "release", "successor"])
def test_a_lost_driver_is_recorded_only_while_it_is_still_as_it_was_seen(catalog: Catalog, clock: ManualClock, event: str) -> None:
    stream = with_stream(catalog)
    lease = catalog.leases.acquire("default", "a", ttl_ms=100)
    assert lease is not None
    catalog.snodes.beat(lease)
    clock.advance(101)
    seen, driver = catalog.jobs.by_id(stream.id), status(catalog, clock)
    match event:
        case "renewal":
            catalog.leases.renew(lease, 100)
        case "heartbeat":
            catalog.snodes.beat(lease)
        case "release":
            catalog.leases.release(lease)
        case "successor":
            catalog.leases.acquire("default", "b", ttl_ms=100)
    assert catalog.jobs.replace_state(seen, JobState.STOPPED, REASON, driver=driver) == (event == "nothing")
    assert (catalog.jobs.by_id(stream.id).state is JobState.STOPPED) == (event == "nothing")


def test_a_driver_seen_hanging_may_renew_its_lease_and_is_still_lost(catalog: Catalog, clock: ManualClock) -> None:
    stream = with_stream(catalog)
    lease = catalog.leases.acquire("default", "a", ttl_ms=100)
    assert lease is not None
    catalog.snodes.beat(lease)
    clock.advance(50)
    seen, driver = catalog.jobs.by_id(stream.id), status(catalog, clock)
    catalog.leases.renew(lease, 100)
    assert catalog.jobs.replace_state(seen, JobState.STOPPED, REASON, driver=driver)


def test_a_successor_of_a_driver_that_had_released_its_lease_keeps_its_streams(catalog: Catalog, clock: ManualClock) -> None:
    stream = with_stream(catalog)
    seen, driver = catalog.jobs.by_id(stream.id), status(catalog, clock)
    assert catalog.leases.acquire("default", "b", ttl_ms=100) is not None
    assert not catalog.jobs.replace_state(seen, JobState.STOPPED, REASON, driver=driver)
