"""Who may see and do what on the page: asked of whatever the page is part of."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

# A header that no form and no plain link of another site can send.
ACTION_HEADER = "x-headrace-action"


class Access(Protocol):
    """Rights of the page's users. Those of a stream are those of its DAG."""

    def user(self, request: Request) -> Awaitable[Any]:
        """The user of a request; HTTPException 401 or 403 where there is none."""
        ...

    def name(self, user: Any) -> str:
        """What to call the user in the list of events."""
        ...

    def readable(self, user: Any, dag_ids: set[str]) -> set[str]:
        """Those of the DAGs that the user may see."""
        ...

    def editable(self, user: Any, dag_id: str) -> bool:
        """Whether the user may change the DAG."""
        ...

    def deletable(self, user: Any, dag_id: str) -> bool:
        """Whether the user may delete the DAG."""
        ...

    @property
    def base_url(self) -> str:
        """URL at which users reach what the page is part of; empty where none is configured."""
        ...


def refuse_foreign(request: Request, base_url: str = "") -> None:
    """Raise HTTPException 403 for a change that another site has a logged-in browser ask for.

    No other site can send the action header without asking this server first, which does not allow it. Beyond that a browser says
    whether the request comes from the page's own origin. One that does not (over plain HTTP they don't) names the origin, which
    must be one at which this server is reached: behind a proxy the Host header may name another.
    """
    site = request.headers.get("sec-fetch-site")
    same_origin = site == "same-origin" or (site in (None, "none") and is_own_origin(request, base_url))
    if ACTION_HEADER not in request.headers or not same_origin:
        raise HTTPException(403, "changes are taken from the page itself only")


def is_own_origin(request: Request, base_url: str) -> bool:
    """Return True where the request names no origin (a browser names one for every change), or that of this server."""
    origin = request.headers.get("origin")
    forwarded = request.headers.get("x-forwarded-host", "").partition(",")[0].strip()
    own = {request.headers.get("host"), forwarded, urlsplit(base_url).netloc} - {"", None}
    return origin is None or urlsplit(origin).netloc in own
