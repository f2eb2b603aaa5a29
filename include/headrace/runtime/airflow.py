"""A client for the parts of Airflow's REST API that Headrace needs: parse DAGs, trigger runs, resume supervision, inspect runs."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final

import httpx

from headrace.errors import OperationalError
from headrace.runtime.dag_ids import PREFIX, SNODE_PREFIX
from headrace.runtime.login import Login, find_login
from headrace.settings import Settings

log = logging.getLogger(__name__)

SUPERVISE: Final = "supervise"
EXECUTE: Final = "execute"
# Task states in which supervision continues without us; in any other it has ended.
STARTED: Final = frozenset({"scheduled", "queued", "running", "deferred", "up_for_retry", "up_for_reschedule", "restarting"})
ACTIVE: Final = STARTED | {None}
ENDED: Final = frozenset({"success", "failed"})
# The scheduler ends a run about a second after its last task, so poll this long for a consistent state.
SETTLING_S: Final = 0.5
MAX_SETTLING_POLLS: Final = 40
MAX_BUSY_RETRIES: Final = 10
# On SQLite, a backfill is refused if anything else writes while Airflow creates it.
MAX_BACKFILL_RETRIES: Final = 60
# Airflow's maximum page size.
PAGE_SIZE: Final = 100
# A statement waits at most this long for Airflow, and hardly at all if nothing listens there.
STATEMENT_TIMEOUT: Final = httpx.Timeout(5.0, connect=0.5)
PATIENT_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)


class AirflowClient:
    """A client of one Airflow. Methods raise `OperationalError` if it cannot be reached or rejects a request, unless documented."""

    def __init__(self, login: Login, timeout: httpx.Timeout = STATEMENT_TIMEOUT) -> None:
        self.login = login
        self._http = httpx.Client(base_url=login.url, timeout=timeout, trust_env=False)
        self._token: str | None = login.token or None

    @classmethod
    def find(cls, settings: Settings, timeout: httpx.Timeout = STATEMENT_TIMEOUT) -> AirflowClient | None:
        """Return a client of the Airflow in the settings or the home folder; None if there is none. Does not connect."""
        login = find_login(settings)
        return None if login is None else cls(login, timeout)

    def __enter__(self) -> AirflowClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Called by statements, which never fail because of Airflow.

    def announce(self) -> bool:
        """Make Airflow parse the catalog's DAGs now instead of within half a minute; return False if that failed."""
        try:
            # One file generates all DAGs, so any DAG gives its token. An snode's DAG always exists.
            dags = self._get("/api/v2/dags", {"dag_id_pattern": f"{SNODE_PREFIX}%", "limit": 1})["dags"]
            if not dags:
                log.info("Airflow has not parsed any DAG yet; leaving the new ones to it")
                return False
            self._call("PUT", f"/api/v2/parseDagFile/{dags[0]['file_token']}", accept=(201, 409))
        except OperationalError as error:
            log.info("skipping the refresh of Airflow's DAGs: %s", error.message)
            return False
        return True

    def supervise(self, dag_id: str) -> bool:
        """Restart the DAG of a job that was resumed, by clearing what failed or was skipped in its last run.

        Returns False if Airflow cannot be reached, or does not have the DAG yet (a new DAG starts without our help).
        """
        try:
            for _ in range(MAX_SETTLING_POLLS):
                if self.restart_ended(dag_id) is not None:
                    break
                time.sleep(SETTLING_S)
        except OperationalError as error:
            log.info("skipping the supervision of %s: %s", dag_id, error.message)
            return False
        return True

    # Called by the reconciliation of supervision.

    def find_supervised(self) -> dict[str, bool]:
        """Return the DAGs whose supervision has started and not ended, with False for those that no triggerer has taken yet."""
        filters = {"task_id": SUPERVISE, "state": sorted(STARTED)}
        tasks = self._pages("/api/v2/dags/~/dagRuns/~/taskInstances", filters)
        return {str(task["dag_id"]): task["state"] != "deferred" or task["triggerer_job"] is not None for task in tasks}

    def restart_ended(
        self, dag_id: str, *, since: datetime | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool | None:
        """Clear what has ended in the latest scheduled run of a job, unless it was done for good.

        The run is due at `since` at the earliest: the DAG may have runs of a dropped job. `is_wanted` is called once the state of
        the run is known, as the last condition.

        Returns whether anything was cleared; None if that has to wait for the scheduler to end the run: a run cleared before that
        would stay ended.
        """
        run = self._scheduled_run(dag_id, since)
        if run is None:
            return False  # Airflow creates the first run without our help.
        tasks = {task["task_id"]: task["state"] for task in self.tasks(dag_id, run["dag_run_id"])}
        has_failed = run["state"] == "failed"
        ended = [task for task, state in tasks.items() if task == SUPERVISE or (task == EXECUTE and state == "skipped")]
        if run["state"] in ENDED:
            if not (has_failed or ended) or not is_wanted():
                return False
            self.clear(dag_id, run["dag_run_id"], None if has_failed else ended, only_failed=has_failed)
            return True
        is_active = any(tasks[task_id] in ACTIVE for task_id in (SUPERVISE, EXECUTE) if task_id in tasks)
        return False if is_active else None

    # Called for events of assets.

    def assets(self, uri_prefix: str) -> list[dict[str, Any]]:
        """Return the active assets whose URIs begin with a text."""
        return self._pages("/api/v2/assets", {"uri_pattern": f"{uri_prefix}%", "only_active": True}, "assets")

    def asset_events(self, asset_id: int) -> list[dict[str, Any]]:
        """Return the latest events of an asset, the latest first."""
        filters = {"asset_id": asset_id, "order_by": "-timestamp", "limit": PAGE_SIZE}
        events: list[dict[str, Any]] = self._get("/api/v2/assets/events", filters)["asset_events"]
        return events

    def post_asset_event(self, asset_id: int, extra: Mapping[str, Any], partition_key: str | None = None) -> None:
        """Post an event of an asset."""
        partition = {} if partition_key is None else {"partition_key": partition_key}
        self._call("POST", "/api/v2/assets/events", json={"asset_id": asset_id, "extra": dict(extra), **partition})

    # Called by commands and tests.

    def backfill(self, dag_id: str, first: datetime, last: datetime) -> None:
        """Start a native backfill of the runs whose logical dates are from `first` to `last`."""
        body = {
            "dag_id": dag_id,
            "from_date": first.isoformat(),
            "to_date": last.isoformat(),
            "max_active_runs": 2,
            "reprocess_behavior": "completed",
        }
        self._call("POST", "/api/v2/backfills", json=body, busy_retries=MAX_BACKFILL_RETRIES)

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """Return Airflow's record of a DAG; None if there is none, or it is stale."""
        dag = self._call("GET", f"/api/v2/dags/{dag_id}", accept=(200, 404))
        return dag if dag.get("dag_id") == dag_id and not dag.get("is_stale") else None

    def runs(self, dag_id: str, limit: int = 20) -> list[dict[str, Any]]:
        """Return the runs of a DAG, latest first."""
        page = self._get(f"/api/v2/dags/{dag_id}/dagRuns", {"limit": limit, "order_by": "-run_after"})
        return list(page["dag_runs"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run; mapped tasks have one for each index."""
        return self._pages(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")

    def clear(self, dag_id: str, run_id: str, task_ids: list[str] | None = None, *, only_failed: bool = False) -> None:
        """Clear tasks of a run, so that they run again, like the button in the UI."""
        body: dict[str, Any] = {"dry_run": False, "dag_run_id": run_id, "only_failed": only_failed, "reset_dag_runs": True}
        if task_ids is not None:
            body["task_ids"] = task_ids
        self._call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body)

    def delete_ended_runs(self, before: datetime) -> int:
        """Delete runs of Headrace's DAGs that ended before an instant, and return their number."""
        filters = {"end_date_lte": before.isoformat(), "state": sorted(ENDED), "order_by": "id", "limit": PAGE_SIZE, "offset": 0}
        count = 0
        while runs := self._get("/api/v2/dags/~/dagRuns", filters)["dag_runs"]:
            own = [run for run in runs if run["dag_id"].startswith(PREFIX)]
            for run in own:
                self._call("DELETE", f"/api/v2/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}", accept=(204, 404))
            count += len(own)
            # Deleted runs are gone from the pages that follow.
            filters["offset"] = int(str(filters["offset"])) + len(runs) - len(own)
        return count

    def version(self) -> dict[str, Any]:
        return dict(self._request("GET", "/api/v2/version", authorized=False).json())

    def pool(self, name: str) -> dict[str, Any] | None:
        """Return Airflow's record of a pool; None if there is none."""
        pool = self._call("GET", f"/api/v2/pools/{name}", accept=(200, 404))
        return pool if "slots" in pool else None

    def connection(self, name: str) -> dict[str, Any] | None:
        """Return Airflow's record of a connection in its database; None if there is none."""
        connection = self._call("GET", f"/api/v2/connections/{name}", accept=(200, 404))
        return connection if "conn_type" in connection else None

    def dags(self, prefix: str) -> list[dict[str, Any]]:
        """Return Airflow's records of the DAGs whose ids begin with a text, without stale ones."""
        dags = self._pages("/api/v2/dags", {"dag_id_pattern": f"{prefix}%", "order_by": "dag_id"}, "dags")
        return [dag for dag in dags if dag["dag_id"].startswith(prefix)]

    def unpause(self, dag_id: str) -> None:
        """Let a DAG run."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def health(self) -> dict[str, Any]:
        return dict(self._request("GET", "/api/v2/monitor/health", authorized=False).json())

    def import_errors(self) -> list[str]:
        dags = self._get("/api/v2/importErrors")["import_errors"]
        plugins = self._get("/api/v2/plugins/importErrors")["import_errors"]
        return [
            f"{error.get('filename') or error.get('source')}: {error.get('stack_trace') or error.get('error')}"
            for error in (*dags, *plugins)
        ]

    def set_connection(self, name: str, fields: Mapping[str, str | None], *, exists: bool) -> None:
        """Create a connection, or set fields of one that exists; its other fields stay."""
        body = {"connection_id": name, **fields}
        if exists:
            self._call("PATCH", f"/api/v2/connections/{name}", json=body, params={"update_mask": list(fields)})
        else:
            self._call("POST", "/api/v2/connections", json=body)

    def set_pool(self, name: str, slots: int, description: str) -> None:
        body = {"name": name, "slots": slots, "description": description, "include_deferred": False}
        if self._call("POST", "/api/v2/pools", json=body, accept=(201, 409)).get("slots") != slots:
            self._call("PATCH", f"/api/v2/pools/{name}", json={"pool": name, **{key: body[key] for key in body if key != "name"}})

    def _scheduled_run(self, dag_id: str, since: datetime | None) -> dict[str, Any] | None:
        """Return the latest scheduled run of a DAG, however many manual ones there are; None if there is none, or no DAG."""
        filters: dict[str, Any] = {"run_type": "scheduled", "order_by": "-run_after", "limit": 1}
        if since is not None:
            filters["run_after_gte"] = since.isoformat()
        page = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params=filters, accept=(200, 404))
        return next(iter(page.get("dag_runs", ())), None)

    def _pages(self, path: str, filters: Mapping[str, Any] | None = None, key: str = "task_instances") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        while True:
            page = self._get(path, {"order_by": "id", **(filters or {}), "limit": PAGE_SIZE, "offset": len(items)})
            items += page[key]
            if not page[key] or len(items) >= page["total_entries"]:
                return items

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._call("GET", path, params=params)

    def _call(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        accept: tuple[int, ...] = (200, 201, 204),
        busy_retries: int = MAX_BUSY_RETRIES,
    ) -> dict[str, Any]:
        response = self._request(method, path, json=json, params=params)
        if response.status_code == 401 and self._token is not None and not self.login.token:
            self._token = None
            response = self._request(method, path, json=json, params=params)
        for _ in range(busy_retries):
            if not is_busy(response):
                break
            # A random wait, so that it does not keep in step with what makes Airflow busy.
            time.sleep(random.uniform(0.5, 1.5) * SETTLING_S)
            response = self._request(method, path, json=json, params=params)
        if response.status_code not in accept:
            raise OperationalError(
                f"Airflow at {self.login.url} refused {method} {path}: {response.status_code} {response.text[:300]}",
                hint="check the login or token, and that it may edit DAGs",
            )
        return dict(response.json()) if response.content and response.text != "null" else {}

    def _request(self, method: str, path: str, *, authorized: bool = True, **arguments: Any) -> httpx.Response:
        try:
            headers = {"Authorization": f"Bearer {self._authorize()}"} if authorized else {}
            return self._http.request(method, path, headers=headers, **arguments)
        except httpx.HTTPError as error:
            raise OperationalError(
                f"Airflow at {self.login.url} cannot be reached: {error or type(error).__name__}",
                hint="start it with `headrace up`, or check HEADRACE_AIRFLOW_URL",
            ) from None

    def _authorize(self) -> str:
        if self._token is None:
            body = {"username": self.login.user, "password": self.login.password}
            response = self._http.post("/auth/token", json=body)
            if response.status_code != 201:
                raise OperationalError(
                    f"Airflow at {self.login.url} refused the login {self.login.user!r}: {response.status_code}",
                    hint="set HEADRACE_AIRFLOW_USER and HEADRACE_AIRFLOW_PASSWORD",
                )
            self._token = str(response.json()["access_token"])
        return self._token


def is_busy(response: httpx.Response) -> bool:
    """Return whether Airflow has rolled a request back since its database was busy, as SQLite may be while all components start."""
    return response.status_code == HTTPStatus.SERVICE_UNAVAILABLE or (
        response.status_code == HTTPStatus.INTERNAL_SERVER_ERROR and "Database error" in response.text
    )


def announce(settings: Settings) -> None:
    """Make Airflow, if one can be reached, parse the catalog's DAGs now."""
    client = AirflowClient.find(settings)
    if client is not None:
        with client:
            client.announce()
