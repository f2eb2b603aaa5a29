"""How a supervisor judges the state of a stream."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobProgress, JobState, StopReason
from headrace.model.positions import Position
from headrace.model.snodes import Heartbeat, Lease
from headrace.runtime import supervision
from headrace.runtime.sharing import is_alive
from headrace.runtime.supervision import (
    MAX_RECONNECT_MS,
    MAX_START_MS,
    REMINDER_MS,
    Snapshot,
    SupervisionStatus,
    Supervisor,
    read_snapshot,
)
from tests.airflow.conftest import NOW
from tests.airflow.samples import add_stream

LEASE_MS = 10_000
ELSEWHERE = "other-host:1:abc"
FAILED = StopReason("TYPE", "column v is gone", "fix the cause, then RESUME STREAM", NOW - 5_000)
PASSING = StopReason("OPERATIONAL", "storage does not answer", "it is retried automatically", NOW - 5_000, transient=True)


def supervisor(catalog: Catalog, stream: str) -> Supervisor:
    """Create a supervisor as a trigger does."""
    reported = supervision.last_report(catalog, stream)
    return Supervisor(stream, heartbeat_ms=1_000, lease_ms=LEASE_MS, reported=reported)


def start_driver(catalog: Catalog, holder: str = ELSEWHERE) -> Lease:
    """Acquire a lease and write a heartbeat, as a driver does."""
    lease = catalog.leases.acquire("default", holder, LEASE_MS)
    assert lease is not None
    catalog.snodes.beat(lease)
    return lease


def driver_process() -> tuple[subprocess.Popen[str], str]:
    """Start a process that waits, and return it with its name as the holder of a lease."""
    source = "from headrace.runtime.lease import holder_name; print(holder_name(), flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", source], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def current_verdict(watch: Supervisor, catalog: Catalog, clock: ManualClock) -> SupervisionStatus:
    return watch.check(read_snapshot(catalog, clock.now())).status


def advance(watch: Supervisor, catalog: Catalog, clock: ManualClock, ms: int) -> None:
    """Advance the clock, checking every second and at the end that there is nothing to report."""
    end = clock.now() + ms
    while clock.now() < end:
        clock.advance(min(1_000, end - clock.now()))
        assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH


def test_a_running_stream_with_a_living_driver_is_watched(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    start_driver(catalog)
    assert current_verdict(supervisor(catalog, stream), catalog, clock) is SupervisionStatus.WATCH


@pytest.mark.parametrize("state", [JobState.CREATED, JobState.FILLING])
def test_a_starting_stream_is_watched(catalog: Catalog, clock: ManualClock, state: JobState) -> None:
    stream = add_stream(catalog, state=state, progress=JobProgress())
    assert current_verdict(supervisor(catalog, stream), catalog, clock) is SupervisionStatus.WATCH


def test_a_stopped_stream_is_reported_with_its_reason(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    finding = supervisor(catalog, stream).check(read_snapshot(catalog, clock.now()))
    assert (finding.status, finding.reason) == (SupervisionStatus.STOPPED, FAILED)


def test_a_paused_and_a_dropped_stream_end_supervision(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    watch = supervisor(catalog, stream)
    catalog.jobs.set_desired(stream, DesiredState.PAUSED)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.PAUSED
    catalog.jobs.drop(stream)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.DROPPED


def test_a_driver_seen_alive_is_lost_when_its_lease_expires(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    lease = start_driver(catalog)
    watch = supervisor(catalog, stream)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH
    advance(watch, catalog, clock, LEASE_MS)
    clock.advance(1)
    finding = watch.check(read_snapshot(catalog, clock.now()))
    assert finding.reason is not None
    assert finding.reason.transient
    assert finding.driver is not None
    assert finding.driver.lease == lease
    assert "let its lease expire; its last heartbeat was 10.0 s ago" in finding.reason.message


def test_a_driver_never_seen_has_time_to_start(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    watch = supervisor(catalog, stream)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH
    advance(watch, catalog, clock, MAX_START_MS - 1)
    clock.advance(2)
    finding = watch.check(read_snapshot(catalog, clock.now()))
    assert finding.status is SupervisionStatus.STOPPED
    assert finding.reason is not None
    assert (finding.reason.code, finding.reason.hint) == (
        "DRIVER_STOPPED",
        "it resumes when the driver is started, as by `headrace up`",
    )
    assert supervision.record_report(catalog, stream, finding.reason, finding.driver)
    assert catalog.jobs.by_id(stream).reason == finding.reason


def test_a_driver_whose_local_process_ended_is_lost_immediately(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    process, holder = driver_process()
    start_driver(catalog, holder)
    watch = supervisor(catalog, stream)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH
    process.kill()
    process.wait()
    finding = watch.check(read_snapshot(catalog, clock.now()))
    assert finding.reason is not None
    assert f"process {process.pid} is gone" in finding.reason.message


def test_a_driver_that_died_before_supervision_is_lost_immediately(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    process, holder = driver_process()
    process.kill()
    process.wait()
    start_driver(catalog, holder)
    assert current_verdict(supervisor(catalog, stream), catalog, clock) is SupervisionStatus.STOPPED


def test_a_driver_of_a_container_that_shares_the_host_name_is_not_taken_for_dead(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    process, holder = driver_process()
    process.kill()
    process.wait()
    host, pid, identity, unique = holder.split(":")
    lease = start_driver(catalog, f"{host}:{pid}:{'0' * 12}.{identity.partition('.')[2]}:{unique}")
    assert current_verdict(supervisor(catalog, stream), catalog, clock) is SupervisionStatus.WATCH
    assert is_alive(lease, clock.now())
    assert not is_alive(replace(lease, holder=holder), clock.now())


def test_a_driver_with_a_lease_but_without_heartbeats_has_a_problem() -> None:
    lease = Lease("default", ELSEWHERE, 3, NOW + 60_000)
    beat = Heartbeat("default", 3, NOW - 11_000)
    state = Snapshot(NOW, {}, {"default": lease}, {"default": beat})
    assert state.driver_problem("default", LEASE_MS) == "does not answer; its last heartbeat was 11.0 s ago"
    state = replace(state, beats={"default": replace(beat, at=NOW - 9_000)})
    assert state.driver_problem("default", LEASE_MS) is None


def test_a_new_driver_is_not_blamed_for_the_last_heartbeat_of_the_previous_one() -> None:
    lease = Lease("default", ELSEWHERE, 4, NOW + 60_000)
    state = Snapshot(NOW, {}, {"default": lease}, {"default": Heartbeat("default", 3, NOW - 60_000)})
    assert state.driver_problem("default", LEASE_MS) is None


def test_a_transient_error_is_reported_once_and_then_waited_out(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=PASSING)
    assert current_verdict(supervisor(catalog, stream), catalog, clock) is SupervisionStatus.STOPPED
    assert supervision.record_report(catalog, stream, PASSING)
    watch = supervisor(catalog, stream)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH
    clock.advance(REMINDER_MS)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.STOPPED


def test_a_second_stop_for_the_same_reason_is_reported_again(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=PASSING)
    supervision.record_report(catalog, stream, PASSING)
    catalog.jobs.set_state(stream, JobState.STOPPED, replace(PASSING, since=NOW))
    assert current_verdict(supervisor(catalog, stream), catalog, clock) is SupervisionStatus.STOPPED


def test_a_report_is_written_to_the_catalog(catalog: Catalog) -> None:
    stream = add_stream(catalog)
    lost = StopReason("DRIVER_LOST", "the driver is gone", "it resumes automatically", NOW, transient=True)
    assert supervision.record_report(catalog, stream, lost)
    record = catalog.jobs.by_id(stream)
    assert (record.state, record.reason) == (JobState.STOPPED, lost)
    assert str(lost) in [event.message for event in catalog.events.all("job", stream)]


def test_a_driver_that_has_recovered_is_not_reported_lost(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    start_driver(catalog)
    clock.advance(LEASE_MS + 1)
    driver = read_snapshot(catalog, clock.now()).driver("default")
    start_driver(catalog, "third-host:1:abc")
    lost = StopReason("DRIVER_LOST", "the driver is gone", "", clock.now(), transient=True)
    assert not supervision.record_report(catalog, stream, lost, driver)
    assert catalog.jobs.by_id(stream).state is JobState.RUNNING


def test_after_an_outage_drivers_have_time_to_reach_the_catalog(catalog: Catalog, clock: ManualClock) -> None:
    stream = add_stream(catalog)
    start_driver(catalog)
    watch = supervisor(catalog, stream)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH
    clock.advance(3_600_000)
    assert current_verdict(watch, catalog, clock) is SupervisionStatus.WATCH
    status, waited = SupervisionStatus.WATCH, 0
    while status is SupervisionStatus.WATCH:
        clock.advance(1_000)
        waited += 1_000
        status = current_verdict(watch, catalog, clock)
    assert waited == LEASE_MS + MAX_RECONNECT_MS


def test_nothing_is_reported_for_a_dropped_stream(catalog: Catalog) -> None:
    stream = add_stream(catalog)
    catalog.jobs.drop(stream)
    assert not supervision.record_report(catalog, stream, FAILED)


def test_clearing_the_task_of_a_stopped_stream_resumes_it(catalog: Catalog) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    assert not supervision.resume_cleared(catalog, stream, supervision.last_report(catalog, stream))
    supervision.record_report(catalog, stream, FAILED)
    assert supervision.resume_cleared(catalog, stream, supervision.last_report(catalog, stream))
    record = catalog.jobs.by_id(stream)
    assert (record.state, record.reason) == (JobState.RUNNING, None)


def test_clearing_does_not_resume_paused_streams_or_transient_errors(catalog: Catalog) -> None:
    paused = add_stream(catalog, "paused", JobState.STOPPED, FAILED)
    passing = add_stream(catalog, "passing", JobState.STOPPED, PASSING)
    catalog.jobs.set_desired(paused, DesiredState.PAUSED)
    for stream, reason in ((paused, FAILED), (passing, PASSING)):
        supervision.record_report(catalog, stream, reason)
        assert not supervision.resume_cleared(catalog, stream, supervision.last_report(catalog, stream))


@pytest.mark.parametrize(
    ("progress", "state"),
    [
        (JobProgress(Position(0, {"d.t": 4}), {"d.t": 2}), JobState.RUNNING),
        (JobProgress(boundary={"d.t": 2}), JobState.FILLING),
    ],
)
def test_a_stream_resumes_in_its_previous_state(catalog: Catalog, progress: JobProgress, state: JobState) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED, progress=progress)
    assert catalog.jobs.by_id(stream).resumed_state is state


def test_a_lost_driver_is_reported_after_the_clock_was_ahead(catalog: Catalog, clock: ManualClock) -> None:
    watch = supervisor(catalog, add_stream(catalog))
    start_driver(catalog)
    for step in (0, 86_400_000, -86_400_000):
        clock.advance(step)
        current_verdict(watch, catalog, clock)
    for _ in range((LEASE_MS + supervision.MAX_RECONNECT_MS) // 1_000 + 1):
        clock.advance(1_000)
        last = current_verdict(watch, catalog, clock)
    assert last is SupervisionStatus.STOPPED
