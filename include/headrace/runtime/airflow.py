"""Airflow's REST API, as far as Headrace needs it: announce DAGs, start and resume supervision, look at runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import httpx

from headrace.errors import OperationalError
from headrace.runtime.dag_ids import SNODE_PREFIX, STREAM_PREFIX, stream_dag_id
from headrace.runtime.login import Login, find_login
from headrace.settings import Settings

log = logging.getLogger(__name__)

SUPERVISE: Final = "supervise"
# Supervision in these states goes on by itself; in any other it has ended.
ACTIVE: Final = frozenset({None, "scheduled", "queued", "running", "deferred", "up_for_retry", "up_for_reschedule", "restarting"})
ENDED: Final = frozenset({"success", "failed"})
# The scheduler ends a run about a second after its last task.
SETTLING_S: Final = 0.5
SETTLING_LOOKS: Final = 40
# Airflow gives no more entries than this at once, whatever it is asked for.
PAGE: Final = 100
# A statement waits no longer than this for Airflow; where nobody listens at all it goes on at once.
BRIEF: Final = httpx.Timeout(5.0, connect=0.5)
PATIENT: Final = httpx.Timeout(30.0, connect=5.0)


class AirflowClient:
    """One Airflow. Methods raise `OperationalError` when it cannot be reached or refuses, save where they say otherwise."""

    def __init__(self, login: Login, timeout: httpx.Timeout = BRIEF) -> None:
        self.login = login
        self._http = httpx.Client(base_url=login.url, timeout=timeout, trust_env=False)
        self._token: str | None = None

    @classmethod
    def find(cls, settings: Settings, timeout: httpx.Timeout = BRIEF) -> AirflowClient | None:
        """A client of the Airflow that the settings or the home folder name; None where there is none. Connects to nothing."""
        login = find_login(settings)
        return None if login is None else cls(login, timeout)

    def __enter__(self) -> AirflowClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # What a statement does on its way; never fails it.

    def announce(self) -> bool:
        """Have Airflow read the catalog's DAGs now instead of within half a minute; False when that was not possible."""
        try:
            # All DAGs are made by one file, which every one of them names. An snode's is there from the beginning.
            known = self._get("/api/v2/dags", {"dag_id_pattern": f"{SNODE_PREFIX}%", "limit": 1})["dags"]
            if not known:
                log.info("Airflow has not read the DAGs yet, and will find what is new by itself")
                return False
            self._call("PUT", f"/api/v2/parseDagFile/{known[0]['file_token']}", accept=(201, 409))
        except OperationalError as error:
            log.info("Airflow was not told of a change of the catalog: %s", error.message)
            return False
        return True

    def supervise(self, database: str, name: str) -> bool:
        """Have a stream supervised again after RESUME STREAM: what failed or was skipped in its last run is cleared.

        False when Airflow cannot be reached, or does not know the stream's DAG (yet; a new DAG starts by itself).
        """
        try:
            self._supervise(stream_dag_id(database, name))
        except OperationalError as error:
            log.info("Airflow was not asked to supervise %s.%s: %s", database, name, error.message)
            return False
        return True

    def unsupervised(self) -> set[str]:
        """Ids of the DAGs of streams whose supervision, or whose own run before it, has ended; of the newest hundred.

        Where Airflow was stopped in between, supervision has ended in a run that has not.
        """
        newest = {"limit": 100, "order_by": "-run_after"}
        runs = self._get("/api/v2/dags/~/dagRuns", {"run_type": "scheduled", "state": sorted(ENDED), **newest})["dag_runs"]
        over = {"task_display_name_pattern": SUPERVISE, "state": sorted(ENDED | {"skipped"}), **newest}
        tasks = self._get("/api/v2/dags/~/dagRuns/~/taskInstances", over)["task_instances"]
        return {str(one["dag_id"]) for one in (*runs, *tasks) if str(one["dag_id"]).startswith(STREAM_PREFIX)}

    # What people and tests ask for.

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run with a form's values; its run id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def recompute(self, database: str, name: str, conf: Mapping[str, Any]) -> str:
        """Start the backfill of a range; `conf` has the form's `from`, `to`, `chunk_rows`, `chunk_minutes`. Its run id."""
        return self.trigger(stream_dag_id(database, name), conf)

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """Pause or unpause a DAG."""
        body = {"is_paused": paused}
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json=body, params={"update_mask": "is_paused"})

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """What Airflow knows of a DAG, None where it does not (or no longer)."""
        found = self._call("GET", f"/api/v2/dags/{dag_id}", accept=(200, 404))
        return found if found.get("dag_id") == dag_id and not found.get("is_stale") else None

    def runs(self, dag_id: str, limit: int = 20) -> list[dict[str, Any]]:
        """Runs of a DAG, the newest first."""
        found = self._get(f"/api/v2/dags/{dag_id}/dagRuns", {"limit": limit, "order_by": "-run_after"})
        return list(found["dag_runs"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Task instances of a run, mapped ones each by itself."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        instances: list[dict[str, Any]] = []
        while True:
            page = self._get(path, {"limit": PAGE, "offset": len(instances), "order_by": "id"})
            instances += page["task_instances"]
            if not page["task_instances"] or len(instances) >= page["total_entries"]:
                return instances

    def log_text(self, dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int = -1) -> str:
        """The log of one try of a task."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        found = self._get(path, {"map_index": map_index, "full_content": True})
        return "\n".join(_line(entry) for entry in found["content"])

    def clear(self, dag_id: str, run_id: str, task_ids: list[str] | None = None, *, only_failed: bool = False) -> None:
        """Have tasks of a run done again, as by the button in the UI."""
        body: dict[str, Any] = {"dry_run": False, "dag_run_id": run_id, "only_failed": only_failed, "reset_dag_runs": True}
        if task_ids is not None:
            body["task_ids"] = task_ids
        self._call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body)

    def health(self) -> dict[str, Any]:
        """Airflow's own account of its components."""
        return dict(self._request("GET", "/api/v2/monitor/health", authorized=False).json())

    def import_errors(self) -> list[str]:
        """What went wrong when DAGs or plugins were imported."""
        dags = self._get("/api/v2/importErrors")["import_errors"]
        plugins = self._get("/api/v2/plugins/importErrors")["import_errors"]
        return [
            f"{found.get('filename') or found.get('source')}: {found.get('stack_trace') or found.get('error')}"
            for found in (*dags, *plugins)
        ]

    def set_pool(self, name: str, slots: int, description: str) -> None:
        """Make a pool, or give it another size."""
        body = {"name": name, "slots": slots, "description": description, "include_deferred": False}
        if self._call("POST", "/api/v2/pools", json=body, accept=(201, 409)).get("slots") != slots:
            self._call("PATCH", f"/api/v2/pools/{name}", json={"pool": name, **{key: body[key] for key in body if key != "name"}})

    def _supervise(self, dag_id: str) -> None:
        """Clear what has ended, once the scheduler has done with the run: a run cleared in that moment would stay ended."""
        for _ in range(SETTLING_LOOKS):
            run = next((run for run in self.runs(dag_id) if run["run_type"] == "scheduled"), None)
            if run is None:
                return  # Airflow makes it by itself.
            states = {task["state"] for task in self.tasks(dag_id, run["dag_run_id"]) if task["task_id"] == SUPERVISE}
            if run["state"] in ENDED:
                failed = run["state"] == "failed"
                self.clear(dag_id, run["dag_run_id"], None if failed else [SUPERVISE], only_failed=failed)
                return
            if states & ACTIVE:
                return
            time.sleep(SETTLING_S)

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
    ) -> dict[str, Any]:
        response = self._request(method, path, json=json, params=params)
        if response.status_code == 401 and self._token is not None:
            self._token = None
            response = self._request(method, path, json=json, params=params)
        if response.status_code not in accept:
            raise OperationalError(
                f"Airflow at {self.login.url} refused {method} {path}: {response.status_code} {response.text[:300]}",
                hint="is the login right, and may it edit DAGs?",
            )
        return dict(response.json()) if response.content and response.text != "null" else {}

    def _request(self, method: str, path: str, *, authorized: bool = True, **arguments: Any) -> httpx.Response:
        try:
            headers = {"Authorization": f"Bearer {self._authorize()}"} if authorized else {}
            return self._http.request(method, path, headers=headers, **arguments)
        except httpx.HTTPError as error:
            raise OperationalError(
                f"Airflow at {self.login.url} cannot be reached: {error or type(error).__name__}",
                hint="start it with `headrace up`",
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


def _line(entry: Any) -> str:
    """One entry of a log as text, with the errors that it tells of."""
    if not isinstance(entry, dict):
        return str(entry)
    errors = [str(error.get("exc_value")) for error in entry.get("error_detail") or ()]
    return "\n".join([str(entry.get("event", entry)), *errors])
