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


def refuse_foreign(request: Request) -> None:
    """HTTPException 403 for a change that another site has a logged-in browser ask for."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if ACTION_HEADER not in request.headers or site not in ("same-origin", "none") or foreign:
        raise HTTPException(403, "changes are taken from the page itself only")
