"""Rights as Airflow knows them. These are parts of Airflow that it does not promise to keep: they are used here only."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import Request


class AirflowAccess:
    """The user is whoever is logged in to Airflow's UI, or bears one of its tokens."""

    async def user(self, request: Request) -> Any:
        return await get_user(request, None, await bearer_scheme(request))

    def name(self, user: Any) -> str:
        return str(user.get_name())

    def readable(self, user: Any, dag_ids: set[str]) -> set[str]:
        return set(get_auth_manager().filter_authorized_dag_ids(dag_ids=dag_ids, user=user, method="GET")) if dag_ids else set()

    def editable(self, user: Any, dag_id: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="PUT", user=user, details=DagDetails(id=dag_id)))

    def deletable(self, user: Any, dag_id: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="DELETE", user=user, details=DagDetails(id=dag_id)))

    @property
    def base_url(self) -> str:
        return str(conf.get("api", "base_url", fallback="") or "")
