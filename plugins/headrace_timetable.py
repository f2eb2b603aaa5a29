"""When a stream's DAG runs by itself: once for each stream that bears its name."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable


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
