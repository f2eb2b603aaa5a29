"""What tests of the page share: the rights of its user, the statements that it runs, and its list of jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.errors import Error
from headrace.jobs.hosts import JobActivity
from headrace.runtime.metrics import slow_batches
from headrace.runtime.snode import busy_jobs

ACTION = {"X-Headrace-Action": "pause"}
"""The header of a request that changes something."""


@dataclass
class Rights:
    """Rights for tests: `hidden` DAGs cannot be read, `fixed` ones not edited, `kept` ones not deleted."""

    logged_in: bool = True
    hidden: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)

    url: str = ""

    @property
    def base_url(self) -> str:
        return self.url

    async def authenticate(self, request: Request) -> Any:  # noqa: ARG002
        if not self.logged_in:
            raise HTTPException(401, "Not authenticated")
        return "vera"

    def user_name(self, user: Any) -> str:
        return str(user)

    def readable_dags(self, user: Any, dag_ids: set[str]) -> set[str]:  # noqa: ARG002
        return dag_ids - self.hidden

    def can_edit(self, user: Any, dag_id: str) -> bool:  # noqa: ARG002
        return dag_id not in self.fixed

    def can_delete(self, user: Any, dag_id: str) -> bool:  # noqa: ARG002
        return dag_id not in self.kept


@dataclass
class Executed:
    """Records statements instead of running them."""

    statements: list[str] = field(default_factory=list)
    dialects: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    error: Error | None = None

    def __call__(self, sql: str, dialect: str, user: str) -> None:
        if self.error is not None:
            raise self.error
        self.statements.append(sql)
        self.dialects.append(dialect)
        self.users.append(user)


def only_job(page: TestClient) -> dict[str, Any]:
    """Return the only job of the list."""
    (job,) = page.get("/api/jobs").json()["jobs"]
    return dict(job)


def beat(catalog: Catalog, stream: str, *, lag_ms: int = 0, in_flight_ms: int = 0, **detail: float) -> None:
    """Write a heartbeat of the stream's driver like an snode, with a lease that outlives the test and further details."""
    lease = catalog.leases.acquire("default", "elsewhere:1:1", 3_600_000)
    assert lease is not None
    catalog.snodes.beat(lease, detail=activity_of(catalog, stream, lag_ms=lag_ms, in_flight_ms=in_flight_ms) | detail)


def activity_of(catalog: Catalog, stream: str, *, lag_ms: int = 0, in_flight_ms: int = 0) -> dict[str, Any]:
    """Return what an snode says of a stream in its heartbeat."""
    activity = {stream: JobActivity(in_flight_ms, 0, catalog.now() - lag_ms)}
    return {"jobs": busy_jobs(activity, catalog.now()), "slow_batches": slow_batches(activity, 120_000)}
