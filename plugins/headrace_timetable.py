"""When DAGs run by themselves: a stream's once for each stream that bears its name, an snode's one run after another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

# SQLite tells the present in whole seconds: a run planned for now would be due in the next one only.
DUE: Final = timedelta(seconds=1)
STEP: Final = timedelta(microseconds=1)


def utc_now() -> pendulum.DateTime:
    """The present."""
    return pendulum.now("UTC")


class OncePerStream(Timetable):
    """One run when the stream was created. A stream dropped and created again under its name gets one of its own.

    (`@once` would give the second stream none: the DAG has run.)
    """

    periodic = False
    can_be_scheduled = True
    description = "Once, when the stream is created; a range is recomputed by triggering"

    def __init__(self, created: int) -> None:
        """`created` in epoch milliseconds."""
        self._created = created

    @property
    def summary(self) -> str:
        return "per stream"

    def serialize(self) -> dict[str, Any]:
        return {"created": self._created}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> OncePerStream:
        return cls(int(data["created"]))

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,  # noqa: ARG002
    ) -> DagRunInfo | None:
        created = pendulum.from_timestamp(self._created / 1000)
        if last_automated_data_interval is not None and last_automated_data_interval.end >= created:
            return None
        return DagRunInfo.exact(created)


class BackToBack(Timetable):
    """A run at once, and another as soon as one has ended.

    `@continuous` is not that: without a start date it gives the second run the logical date of the first, and the scheduler,
    which sees that such a run exists, makes none ever again. Here a run's date is that of the run before plus a microsecond. It
    does not follow the clock, so it is always past and always new, also when the clock stands still or is set back.
    """

    periodic = False
    can_be_scheduled = True
    active_runs_limit = 1
    description = "One run after another"

    @property
    def summary(self) -> str:
        return "back to back"

    def serialize(self) -> dict[str, Any]:
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> BackToBack:  # noqa: ARG003
        return cls()

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,  # noqa: ARG002
    ) -> DagRunInfo | None:
        now = utc_now()
        if last_automated_data_interval is not None and last_automated_data_interval.end + STEP <= now:
            return DagRunInfo.exact(last_automated_data_interval.end + STEP)
        # The first run, or a clock set back to before it, which gives new dates of its own.
        return DagRunInfo.exact(now - DUE)
