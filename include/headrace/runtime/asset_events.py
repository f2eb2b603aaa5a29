"""Events of Airflow's assets for what snodes write: the closed windows of streams, and executions of continuous queries.

The tasks of a DAG post the events of what they write themselves. Streams, and queries that an snode executes, have no tasks, so
their snode posts events through Airflow's API: at most one for each asset and pass, with all that was written since the last one,
and none for an asset on which no DAG is scheduled. Airflow keeps the last event, from which the next pass of any snode continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import JobRecord
from headrace.runtime.dag_ids import ASSET_PREFIX, asset_uri
from headrace.runtime.query_runs import instant_text, parse_instant

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.runtime.airflow import AirflowClient

QUIET_S: Final = 5.0
"""How long an event waits for one before it. A scheduler that is about to start the runs of that forgets what comes meanwhile."""
MAX_DAYS: Final = 31
"""Days that one pass reports as complete."""
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Reached:
    """How far a job has come: results until `until`, in epoch milliseconds, are final; `rows` were written in all."""

    until: int
    rows: int


class AssetEvents:
    """Posts the events of an snode's jobs."""

    def __init__(self, context: Context, snode: str) -> None:
        self._context, self._snode = context, snode

    def post(self) -> None:
        """Make one pass; without an Airflow there is nothing to do."""
        from headrace.runtime.airflow import PATIENT_TIMEOUT, AirflowClient  # an HTTP client is slow to import

        client = AirflowClient.find(self._context.settings, PATIENT_TIMEOUT)
        if client is not None:
            with client:
                consumed = {asset["uri"]: asset for asset in client.assets(ASSET_PREFIX) if asset["scheduled_dags"]}
                for record, reached in self._jobs(consumed):
                    post_events(client, consumed[asset_uri(record.definition)]["id"], record, reached)

    def _jobs(self, consumed: dict[str, Any]) -> Iterator[tuple[JobRecord, Reached]]:
        """Yield the jobs whose events no task posts, and on whose assets DAGs are scheduled."""
        if not consumed:
            return
        for record in self._context.catalog.jobs.all():
            definition = record.definition
            is_own = definition.snode == self._snode
            if not is_own or not is_known(definition.kind) or asset_uri(definition) not in consumed:
                continue
            if kind_of(definition).is_resident(definition, self._context.settings):
                reached = self._reached(record)
                if reached is not None:
                    yield record, reached

    def _reached(self, record: JobRecord) -> Reached | None:
        """Return how far a job has come; None if it has not begun."""
        definition, progress = record.definition, record.progress
        if definition.continuous_query is not None:
            last = next((run for run in self._context.catalog.executions.all(definition.id, 1) if run.rows is not None), None)
            return None if last is None else Reached(last.end, progress.counters.rows_out)
        if progress.watermark is None:
            return None
        precision = self._context.catalog.databases.get(definition.source.database).precision
        return Reached(progress.watermark * 1000 // precision.ticks_per_second, progress.counters.rows_out)


def post_events(client: AirflowClient, asset: int, record: JobRecord, reached: Reached) -> None:
    """Post an event if a job has come further than the last one says, and one for each day (UTC) that is complete since then.

    Soon after another event of the asset, this is left to the next pass.
    """
    events = client.asset_events(asset)
    if events and is_recent(events[0]["timestamp"]):
        return
    extras = (dict(event["extra"] or {}) for event in events)
    last = next((extra for extra in extras if extra.get("job_id") == record.definition.id), None)
    since = None if last is None else parse_instant(last["until"])
    if since is not None and reached.until <= since:
        return
    for day in complete_days(since, reached.until):
        client.post_asset_event(asset, {"job": str(record.definition), "day": day.isoformat()}, partition_key=day.isoformat())
    rows_before = 0 if last is None else int(last.get("rows_out", 0))
    extra: dict[str, Any] = {
        "job": str(record.definition),
        "job_id": record.definition.id,
        "from": None if since is None else instant_text(since),
        "until": instant_text(reached.until),
        "rows": max(0, reached.rows - rows_before),
        "rows_out": reached.rows,
    }
    # Last, since the next pass continues from it: days may be reported twice after a failure, but none is left out.
    client.post_asset_event(asset, extra)


def is_recent(timestamp: str) -> bool:
    """Return whether Airflow may not have started the runs of an event yet, and so may start none for another one.

    An event of the future is none: the clocks of the two machines differ, and nothing may wait until they agree.
    """
    return abs(datetime.now(UTC) - datetime.fromisoformat(timestamp)) < timedelta(seconds=QUIET_S)


def complete_days(since: int | None, until: int) -> list[date]:
    """Return the days (UTC) that have ended between two instants in epoch milliseconds: the last `MAX_DAYS` of them."""
    end = until // DAY_MS
    first = end - 1 if since is None else since // DAY_MS
    return [date(1970, 1, 1) + timedelta(days=day) for day in range(max(first, end - MAX_DAYS), end)]
