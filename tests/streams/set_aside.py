"""What tests of the quarantine share: a row that fails, and what a stream has set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import JobCounters
from headrace.model.quarantine import QuarantinedRow, QuarantineRequest
from tests.streams.environment import StreamEnvironment

if TYPE_CHECKING:
    from headrace.streams.definition.define import StreamPlan

HOUR = 3_600_000
BAD = "99999999999"
"""A value of `b` with which LENGTHS cannot be computed: it is out of the range of the position in a string."""

SUMS = "into sums as select _wstart, count(*) n, sum(a) total from readings interval(10s)"
LENGTHS = "into lengths as select _wstart, count(*) n, max(length(substr(b, cast(b as bigint)))) longest from readings"
POSITIONS = "as select _wstart, count(*) n, length(substr('abcdefghij', sum(a))) rest from"
"""A query that fails if the sum of a window is out of the range of the position in a string, though no row is."""
FAR = 2_000_000_000
"""A value of `a` of which a window may have one."""


def held(env: StreamEnvironment, plan: StreamPlan) -> list[QuarantinedRow]:
    return [row for row in env.catalog.quarantine.rows(plan.id) if row.dropped is None]


def counters(env: StreamEnvironment, plan: StreamPlan) -> JobCounters:
    return env.record(plan).progress.counters


def replay(env: StreamEnvironment, plan: StreamPlan) -> None:
    env.catalog.quarantine.request(plan.id, QuarantineRequest.REPLAY, env.clock.now())
    env.settle()


def drop(env: StreamEnvironment, plan: StreamPlan) -> None:
    env.catalog.quarantine.request(plan.id, QuarantineRequest.DROP, env.clock.now())
    env.settle()


def windows(env: StreamEnvironment, plan: StreamPlan) -> list[tuple[Any, ...]]:
    return sorted(row[:3] for row in env.results(plan))


def crash(env: StreamEnvironment, point: str) -> None:
    with armed(f"{point}:1:raise"), pytest.raises(FailpointError):
        env.settle()
    env.restart_after_failure()
