"""Reconciliation of supervision: what has ended in Airflow although its job is to run starts again, whatever ended it.

A RESUME that could not reach Airflow, a triggerer that was killed, or an error in a trigger leave a job without supervision. The
driver of an snode looks for such jobs of the snode every minute, also if `headrace up` has not started Airflow.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headrace.errors import NotFoundError
from headrace.jobs.registry import is_known, kind_of
from headrace.model.execution_history import NO_HISTORY
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.runtime.airflow_tasks import BACKFILL_FAILED
from headrace.runtime.dag_ids import record_dag_id
from headrace.runtime.supervision import last_report, stop_mark

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.runtime.airflow import AirflowClient
    from headrace.settings import Settings

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0
# Airflow may start a due execution this late.
MAX_DELAY_MS: Final = 60_000
NO_TRIGGERER: Final = (
    "no triggerer of Airflow has taken the supervision of {count} jobs, for example {example}: "
    "raise its setting `[triggerer] capacity`, or start another triggerer"
)


class Reconciler:
    """Reconciles the supervision of an snode's jobs."""

    def __init__(self, context: Context, snode: str) -> None:
        self._catalog, self._settings, self._snode = context.catalog, context.settings, snode
        self._waiting: set[str] = set()
        self._is_reported = False

    def reconcile(self) -> None:
        """Make one pass; without an Airflow there is nothing to do."""
        from headrace.runtime.airflow import PATIENT_TIMEOUT, AirflowClient  # an HTTP client is slow to import

        client = AirflowClient.find(self._settings, PATIENT_TIMEOUT)
        if client is not None:
            with client:
                # Airflow before the catalog: a job that runs after its supervision has ended was resumed in between.
                supervised = client.find_supervised()
                for record in find_unsupervised(self._catalog, self._settings, self._snode, supervised.keys()):
                    restart_supervision(self._catalog, self._settings, client, record)
                self._report_waiting({dag_id for dag_id, has_triggerer in supervised.items() if not has_triggerer})

    def _report_waiting(self, waiting: set[str]) -> None:
        """Report jobs whose supervision waits for a triggerer since the last pass: once, until all have one."""
        late = sorted(waiting & self._waiting)
        self._waiting = waiting
        if late:
            text = NO_TRIGGERER.format(count=len(late), example=late[0])
            logger.warning("%s", text)
            if not self._is_reported:
                self._catalog.events.record("snode", self._snode, "UNSUPERVISED", text)
        self._is_reported = bool(late)


def find_unsupervised(catalog: Catalog, settings: Settings, snode: str, supervised: Collection[str]) -> Iterator[JobRecord]:
    """Yield the jobs of an snode that are to run, and whose DAG may need help: it does not supervise, or is late to execute."""
    histories, now = catalog.executions.histories(), catalog.now()
    for record in catalog.jobs.all():
        definition = record.definition
        if definition.snode != snode:
            continue
        if not is_known(definition.kind):  # its driver has stopped it
            continue
        if is_supervised(record, settings):
            needs_help = record_dag_id(record) not in supervised
        else:
            needs_help = histories.get(definition.id, NO_HISTORY).lag_ms(definition.schedule, now) > MAX_DELAY_MS
        if needs_help and is_wanted(catalog, settings, record):
            yield record


def restart_supervision(catalog: Catalog, settings: Settings, client: AirflowClient, record: JobRecord) -> None:
    """Clear what has ended of a job's DAG, unless the job is no longer to run."""
    job = record.definition

    def is_still_wanted() -> bool:
        with suppress(NotFoundError):
            return is_wanted(catalog, settings, catalog.jobs.by_id(job.id))
        return False

    first = job.created if is_supervised(record, settings) else job.schedule.first
    since = datetime.fromtimestamp(first / 1000, UTC)
    if client.restart_ended(record_dag_id(record), since=since, is_wanted=is_still_wanted):
        logger.info("restarted the run of %s in Airflow", job)
        catalog.events.record("job", job.id, "SUPERVISED", "its run in Airflow had ended, and was restarted")


def is_wanted(catalog: Catalog, settings: Settings, record: JobRecord) -> bool:
    """Return whether a job should have a run in Airflow: not if it has stopped for good, and the run has reported that."""
    if record.desired is not DesiredState.RUNNING:
        return False
    reason = record.reason if record.state is JobState.STOPPED else None
    if reason is None or reason.transient:
        return True
    # A failure of the run itself needs no report, and must not be repeated.
    is_reportable = is_supervised(record, settings) and reason.code != BACKFILL_FAILED
    return is_reportable and last_report(catalog, record.definition.id) != stop_mark(reason)


def is_supervised(record: JobRecord, settings: Settings) -> bool:
    """Return whether the DAG of a job supervises it, rather than execute it."""
    return kind_of(record.definition).is_resident(record.definition, settings)
