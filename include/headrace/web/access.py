"""Access control of the page: the rights that its host application grants, and protection against cross-site requests."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

# Forms and links of other sites cannot send custom headers.
ACTION_HEADER = "x-headrace-action"


class Access(Protocol):
    """Rights of the page's users; the rights on a job are those on its DAG."""

    def authenticate(self, request: Request) -> Awaitable[Any]:
        """Return the user of a request; `HTTPException` 401 or 403 if it has no valid one."""

    def user_name(self, user: Any) -> str:
        """Return the user's name for the list of events."""

    def readable_dags(self, user: Any, dag_ids: set[str]) -> set[str]:
        """Return the DAGs among `dag_ids` that the user may read."""

    def can_edit(self, user: Any, dag_id: str) -> bool:
        """Return True if the user may edit the DAG."""

    def can_delete(self, user: Any, dag_id: str) -> bool:
        """Return True if the user may delete the DAG."""

    @property
    def base_url(self) -> str:
        """URL at which users reach the host application, or an empty string if none is configured."""


def require_same_origin(request: Request, base_url: str = "") -> None:
    """Reject a change that another site sends through a logged-in user's browser.

    Another site cannot send the action header without a preflight request, which this server denies. In addition, browsers report
    whether a request comes from the page's own origin. Over plain HTTP they do not; then the Origin header must name this server,
    as its Host header, its proxy or the configured base URL does.

    Raises:
        HTTPException: 403 if the request does not come from the page.
    """
    site = request.headers.get("sec-fetch-site")
    is_same_origin = site == "same-origin" or (site in (None, "none") and is_own_origin(request, base_url))
    if ACTION_HEADER not in request.headers or not is_same_origin:
        raise HTTPException(403, "changes are only accepted from the page itself")


def is_own_origin(request: Request, base_url: str) -> bool:
    """Return True if the Origin header names this server or is absent; browsers send it with every change."""
    origin = request.headers.get("origin")
    forwarded = request.headers.get("x-forwarded-host", "").partition(",")[0].strip()
    own = {request.headers.get("host"), forwarded, urlsplit(base_url).netloc} - {"", None}
    return origin is None or urlsplit(origin).netloc in own
