"""What is wrong with jobs and snodes right now, for alerts, by the figures that users are shown.

Catalog and tables are read instead of asking snodes, so that a missing snode is noticed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.model.job_parts import whole_id
from headrace.model.jobs import DesiredState, JobRecord
from headrace.runtime.activity import current_lag_ms, read_present, reported_activity
from headrace.runtime.supervision import Snapshot, stale_after_ms
from headrace.settings import Settings

BEHIND: Final = "behind"
QUARANTINE: Final = "quarantine"
AWAY: Final = "away"


@dataclass(frozen=True)
class Alert:
    """Something that is wrong: `key` is the same for as long as it lasts; `text` says what, and what to do."""

    key: str
    text: str


@dataclass(frozen=True)
class Seen:
    """What a check has seen: alerts by key, the number of rows in quarantine of each job, and alerts of quarantines that grow."""

    alerts: Mapping[str, str]
    held: Mapping[str, int]
    growing: frozenset[str]


def check(context: Context, held_before: Mapping[str, int]) -> Seen:
    """Return what is wrong now. A quarantine grows if it has more rows than `held_before`."""
    catalog, settings = context.catalog, context.settings
    state, held = read_present(context), Counter[str]()
    for job_id, rows in catalog.quarantine.counts().items():
        held[whole_id(job_id)] += rows
    running = [record for record in state.jobs.values() if record.desired is DesiredState.RUNNING]
    found = [
        *snodes_away(state, settings, running),
        *jobs_behind(catalog, state, settings, running),
        *quarantines(state.jobs.values(), held),
    ]
    growing = frozenset(f"{QUARANTINE} {job_id}" for job_id, rows in held.items() if rows > held_before.get(job_id, 0))
    return Seen({alert.key: alert.text for alert in found}, held, growing)


def snodes_away(state: Snapshot, settings: Settings, running: list[JobRecord]) -> Iterator[Alert]:
    """Yield an alert for each snode with jobs that has no living driver."""
    for snode in sorted({record.definition.snode for record in running}):
        problem = state.driver_problem(snode, stale_after_ms(settings))
        if problem is not None:
            yield Alert(f"{AWAY} {snode}", f"snode {snode} has no living driver: {problem}; see the log of its DAG's task `driver`")


def jobs_behind(catalog: Catalog, state: Snapshot, settings: Settings, running: list[JobRecord]) -> Iterator[Alert]:
    """Yield an alert for each job that is further behind its source, or its schedule, than the setting allows, in any state."""
    activity, histories = reported_activity(state, stale_after_ms(settings)), catalog.executions.histories()
    for record in running:
        job = record.definition
        lag = current_lag_ms(record, activity.get(job.id), histories.get(job.id), state.now)
        if lag is not None and lag > settings.alert_lag_s * 1000:
            yield Alert(f"{BEHIND} {job.id}", f"{job.kind} {job} is {lag // 1000} s behind; SHOW JOBS and the page show why")


def quarantines(records: Iterable[JobRecord], held: Mapping[str, int]) -> Iterator[Alert]:
    """Yield an alert for each stream with rows in quarantine, also if it is paused."""
    for record in records:
        job = record.definition
        if rows := held.get(job.id, 0):
            yield Alert(f"{QUARANTINE} {job.id}", f"stream {job} has {rows} rows in quarantine; SHOW QUARANTINE lists them")
