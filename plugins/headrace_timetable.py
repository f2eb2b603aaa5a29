"""Timetables: a stream's DAG runs once per creation of the stream, an snode's DAG runs back to back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

# SQLite rounds the current time down to seconds, so a run dated now would only be due in the next second.
BACKDATE: Final = timedelta(seconds=1)
STEP: Final = timedelta(microseconds=1)


def utc_now() -> pendulum.DateTime:
    """Return the current time. Tests replace this function."""
    return pendulum.now("UTC")


class OncePerStream(Timetable):
    """Schedules one run when a stream is created, also for a stream that replaces a dropped one of the same name.

    With `@once`, the second stream would get no run, because its DAG has had one.
    """

    periodic = False
    can_be_scheduled = True
    description = "Once, when the stream is created; a range is recomputed by triggering"

    def __init__(self, created: int) -> None:
        """Create the timetable of a stream.

        Args:
            created: When the stream was created, in epoch milliseconds.
        """
        self._created = created

    @property
    def summary(self) -> str:
        """Short text for Airflow's UI."""
        return "per stream"

    def serialize(self) -> dict[str, Any]:
        """Return the arguments from which Airflow recreates the timetable."""
        return {"created": self._created}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> OncePerStream:
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
        """Return a run at the stream's creation, or None if there has been a run since."""
        created = pendulum.from_timestamp(self._created / 1000)
        if last_automated_data_interval is not None and last_automated_data_interval.end >= created:
            return None
        return DagRunInfo.exact(created)


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
