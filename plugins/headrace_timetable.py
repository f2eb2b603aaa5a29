"""Timetables: once per creation of a job, on the schedule of a continuous query, or back to back for an snode.

The core imports this module in every component, so it imports nothing of Headrace but the model.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

from headrace.model.continuous_queries import Schedule
from headrace.model.conversion import from_json, to_json

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

# SQLite rounds the current time down to seconds, so a run dated now would only be due in the next second.
BACKDATE: Final = timedelta(seconds=1)
STEP: Final = timedelta(microseconds=1)
GENERATIONS: Final = 500
"""Queries of one name that are distinguished: more microseconds would be rounded to the next millisecond."""
START_DATE: Final = pendulum.datetime(1970, 1, 1)
"""Start of the DAGs of continuous queries: Airflow requires one for catchup, but would give no tasks to manual runs before it."""


def utc_now() -> pendulum.DateTime:
    """Return the current time. Tests replace this function."""
    return pendulum.now("UTC")


def epoch_ms(instant: pendulum.DateTime) -> int:
    """Return an instant in epoch milliseconds."""
    return round(instant.timestamp() * 1000)


def from_epoch_ms(ms: int) -> pendulum.DateTime:
    """Return the instant of epoch milliseconds."""
    return pendulum.from_timestamp(ms / 1000)


class OncePerJob(Timetable):
    """Schedules one run when a job is created, also for a job that replaces a dropped one of the same name.

    With `@once`, the second job would get no run, because its DAG has had one.
    """

    periodic = False
    can_be_scheduled = True
    description = "Once, when the job is created; a range is recomputed by triggering"

    def __init__(self, created: int) -> None:
        """Create the timetable of a job.

        Args:
            created: When the job was created, in epoch milliseconds.
        """
        self._created = created

    @property
    def summary(self) -> str:
        """Short text for Airflow's UI."""
        return "once"

    def serialize(self) -> dict[str, Any]:
        """Return the arguments from which Airflow recreates the timetable."""
        return {"created": self._created}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> OncePerJob:
        """Recreate the timetable from its serialized arguments."""
        return cls(int(data["created"]))

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """Return an empty interval; manual runs get their range from the form."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,  # noqa: ARG002
    ) -> DagRunInfo | None:
        """Return a run at the job's creation, or None if there has been a run since."""
        created = from_epoch_ms(self._created)
        if last_automated_data_interval is not None and last_automated_data_interval.end >= created:
            return None
        return DagRunInfo.exact(created)


class QuerySchedule(Timetable):
    """Schedules a run at each instant of a continuous query.

    The run for an instant is due at that instant. Its data interval is the range that is computed, so its logical date is the start
    of this range.

    Airflow keeps the runs of a query that was dropped, has one run for each logical date, and takes the runs of its name for those
    of this one. So the dates of the first query of a name are exact, and those of later ones that many microseconds later.
    """

    description = "Each execution of the continuous query"

    def __init__(self, schedule: Schedule, generation: int = 0) -> None:
        """Create the timetable of a query; `generation` is the number of queries of its name that were dropped."""
        self._schedule = schedule
        self._generation = generation
        self._shift = timedelta(microseconds=generation % GENERATIONS)

    @property
    def summary(self) -> str:
        """Short text for Airflow's UI."""
        return f"every {timedelta(milliseconds=self._schedule.every)}"

    def serialize(self) -> dict[str, Any]:
        """Return the schedule as plain values."""
        return {"schedule": to_json(self._schedule), "generation": self._generation}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> QuerySchedule:
        """Recreate the timetable from its serialized schedule."""
        return cls(from_json(Schedule, data["schedule"]), data["generation"])

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """Return the range that begins at a logical date, or if none does so yet, the latest range that was due by then."""
        schedule = self._schedule
        at = epoch_ms(run_after)
        instant = schedule.at_or_before(at)
        beginning = at + schedule.start_offset
        if schedule.at_or_after(beginning) == beginning <= epoch_ms(utc_now()):
            instant = beginning
        return self._range(instant)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the run that follows, from the first instant of the schedule on.

        A backfill has a restriction of its own, and may go back further.
        """
        schedule, first = self._schedule, self._schedule.first
        if restriction.earliest is not None and restriction.earliest != START_DATE:
            first = schedule.at_or_after(epoch_ms(restriction.earliest) + schedule.start_offset)
        if last_automated_data_interval is not None and self._is_own(last_automated_data_interval):
            last = epoch_ms(last_automated_data_interval.start) + schedule.start_offset
            first = max(first, schedule.at_or_after(last + 1))
        if not restriction.catchup:
            first = max(first, schedule.at_or_before(epoch_ms(utc_now())))
        interval = self._range(first)
        if restriction.latest is not None and interval.start - self._shift > restriction.latest:
            return None
        return DagRunInfo(run_after=from_epoch_ms(first) + self._shift, data_interval=interval)

    def run_info_from_dag_run(self, *, dag_run: DagRun) -> DagRunInfo:
        """Return a run as the timetable would schedule it, from its logical date.

        A user may have given a manual run the logical date of a run that is to be scheduled, but another data interval. Airflow
        then asks for the run after it again and again, and must not get the same one each time.
        """
        if dag_run.logical_date is None:
            return super().run_info_from_dag_run(dag_run=dag_run)
        logical_date = pendulum.instance(dag_run.logical_date)
        instant = self._schedule.at_or_before(epoch_ms(logical_date) + self._schedule.start_offset)
        interval = self._range(instant)
        if logical_date.microsecond % 1000 != self._shift.microseconds:
            interval = DataInterval(logical_date, max(logical_date, interval.end))
        return DagRunInfo(run_after=from_epoch_ms(instant) + self._shift, data_interval=interval)

    def _is_own(self, interval: DataInterval) -> bool:
        """Return whether a run was one of this query, rather than of one of its name that was dropped."""
        return interval.start.microsecond % 1000 == self._shift.microseconds

    def _range(self, instant: int) -> DataInterval:
        start, end = (from_epoch_ms(ms) + self._shift for ms in self._schedule.range_at(instant))
        return DataInterval(start, end)


class BackToBack(Timetable):
    """Schedules a run immediately, and the next one as soon as a run has ended.

    `@continuous` does not work without a start date: it gives the second run the logical date of the first, and the scheduler,
    which finds a run with this date, never creates another. Here each run is dated one microsecond after the previous one. The
    date does not depend on the clock, so it is always past and always new, even if the clock stops or is set back.
    """

    periodic = False
    can_be_scheduled = True
    active_runs_limit = 1
    description = "One run after another"

    @property
    def summary(self) -> str:
        """Short text for Airflow's UI."""
        return "back to back"

    def serialize(self) -> dict[str, Any]:
        """Return no arguments; the timetable has none."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> BackToBack:  # noqa: ARG003
        """Recreate the timetable."""
        return cls()

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """Return an empty interval; manual runs get their range from the form."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,  # noqa: ARG002
    ) -> DagRunInfo | None:
        """Return a run dated one microsecond after the last one, or just before now if there is none."""
        now = utc_now()
        if last_automated_data_interval is not None and last_automated_data_interval.end + STEP <= now:
            return DagRunInfo.exact(last_automated_data_interval.end + STEP)
        # This is the first run, or the clock was set back to before it, so that dates from now on are new.
        return DagRunInfo.exact(now - BACKDATE)
