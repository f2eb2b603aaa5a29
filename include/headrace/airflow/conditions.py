"""Conditions on jobs that sensors wait for. They are checked by SHOW, which starts no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from headrace.model.jobs import JobState

if TYPE_CHECKING:
    from headrace.service.connection import Connection

STREAM: Final = "stream"
KINDS: Final = {STREAM: STREAM, "cq": "continuous query", "pipe": "pipe"}
"""Names of parameters, and the kinds of jobs that they name."""


@dataclass(frozen=True)
class Verdict:
    """Whether a condition holds, with a line for the log of the task."""

    holds: bool
    text: str


@dataclass(frozen=True)
class LagCondition:
    """A job is at most `max_ms` behind its source."""

    kind: str
    job: str
    max_ms: int

    def check(self, connection: Connection) -> Verdict:
        """Return whether the condition holds now.

        Raises:
            AirflowFailException: There is no such job, or it is STOPPED.
        """
        lag = running_job(connection, self.kind, self.job)["lag_ms"]
        if lag is None:
            return Verdict(False, f"{KINDS[self.kind]} {self.job} is not live yet")
        holds = lag <= self.max_ms
        return Verdict(
            holds, f"{KINDS[self.kind]} {self.job} is {lag} ms behind; {'at most' if holds else 'not yet'} {self.max_ms}"
        )


@dataclass(frozen=True)
class WindowClosedCondition:
    """A stream has closed and written every window that ends at or before `end`, in epoch milliseconds."""

    stream: str
    end: int

    def check(self, connection: Connection) -> Verdict:
        """Return whether the condition holds now.

        Raises:
            AirflowFailException: There is no such stream, or it is STOPPED.
        """
        closed = running_job(connection, STREAM, self.stream)["closed_until"]
        if closed is None:
            return Verdict(False, f"stream {self.stream} has closed no window yet")
        text = f"stream {self.stream} has closed its windows until {closed.isoformat()}"
        return Verdict(closed >= datetime.fromtimestamp(self.end / 1000, UTC), text)


Condition = LagCondition | WindowClosedCondition
CONDITIONS: Final[Mapping[str, type[Condition]]] = {"lag": LagCondition, "window_closed": WindowClosedCondition}
"""Conditions by the name under which a trigger is serialized."""


def running_job(connection: Connection, kind: str, name: str) -> dict[str, Any]:
    """Return what SHOW says of a job.

    Raises:
        AirflowFailException: There is no such job, or it is STOPPED, so that waiting is of no use.
    """
    job = find_job(connection, kind, name)
    if job["status"] == JobState.STOPPED.value:
        raise AirflowFailException(f"{KINDS[kind]} {name} is STOPPED: {job['message']}")
    return job


def find_job(connection: Connection, kind: str, name: str) -> dict[str, Any]:
    """Return the row of a job that SHOW STREAMS or SHOW JOBS lists; `name` is `database.stream` for a stream."""
    database, _, own_name = name.rpartition(".")
    place = f" FROM `{database}`" if database else ""
    statement = f"SHOW STREAMS{place}" if kind == STREAM else "SHOW JOBS"
    rows = connection.execute(statement).fetch_arrow_table().to_pylist()
    key = "stream_name" if kind == STREAM else "job_name"
    for row in rows:
        if row[key] == own_name and row.get("kind", STREAM) == KINDS[kind]:
            return dict(row)
    raise AirflowFailException(f"there is no {KINDS[kind]} {name}; {statement} lists what there is")
