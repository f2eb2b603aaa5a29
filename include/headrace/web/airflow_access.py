"""Rights from Airflow's auth manager. It is internal API of Airflow, so nothing else here imports it."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import Request


class AirflowAccess:
    """Access control by Airflow's users, who authenticate with the UI's session or an API token."""

    async def authenticate(self, request: Request) -> Any:
        """Return Airflow's user of a request; raises HTTPException 401 if there is none."""
        return await get_user(request, None, await bearer_scheme(request))

    def user_name(self, user: Any) -> str:
        return str(user.get_name())

    def readable_dags(self, user: Any, dag_ids: set[str]) -> set[str]:
        return set(get_auth_manager().filter_authorized_dag_ids(dag_ids=dag_ids, user=user, method="GET")) if dag_ids else set()

    def can_edit(self, user: Any, dag_id: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="PUT", user=user, details=DagDetails(id=dag_id)))

    def can_delete(self, user: Any, dag_id: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="DELETE", user=user, details=DagDetails(id=dag_id)))

    @property
    def base_url(self) -> str:
        return str(conf.get("api", "base_url", fallback="") or "")
