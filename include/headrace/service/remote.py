"""Queries answered by the snode: its Spark is warm, a start of one here would take seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace import errors
from headrace.model.streams import Heartbeat
from headrace.runtime.context import Context
from headrace.service.results import Result

if TYPE_CHECKING:
    import httpx

ARROW: Final = "application/vnd.apache.arrow.stream"
# A query may take long; that nobody answers at all shows at once.
CONNECT_SECONDS: Final = 1.0


def living_snode(context: Context) -> Heartbeat | None:
    """The snode's last heartbeat, where it lives, answers statements, and this process has no Spark session of its own."""
    if getattr(context.spark, "started", True):
        return None
    try:
        beat = context.catalog.snodes.get(context.settings.snode)
    except errors.NotFoundError:
        return None
    lease = context.catalog.leases.get(context.settings.snode)
    alive = lease is not None and lease.epoch == beat.epoch and lease.expires > context.clock.now()
    return beat if alive and beat.address and beat.token else None


def ask(snode: Heartbeat, text: str, dialect: str, database: str | None) -> Result:
    """Have the snode answer a query.

    Raises:
        Error: as the snode raised it; `OperationalError` where it does not answer.
    """
    import httpx
    import pyarrow as pa

    body = {"sql": text, "dialect": dialect, "database": database}
    headers = {"Authorization": f"Bearer {snode.token}", "Accept": ARROW}
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
    try:
        response = httpx.post(f"{snode.address}/sql", json=body, headers=headers, timeout=timeout, trust_env=False)
    except httpx.HTTPError as error:
        raise errors.OperationalError(
            f"snode {snode.snode} at {snode.address} does not answer: {error}", hint="see SHOW SNODES, and its log"
        ) from error
    if response.status_code != 200:
        raise raised(response)
    return Result(pa.ipc.open_stream(response.content).read_all())


def raised(response: httpx.Response) -> errors.Error:
    """The error that the snode raised, of the same class."""
    body: dict[str, Any] = response.json()
    kinds = {kind.code: kind for kind in subclasses(errors.Error)}
    kind = kinds.get(str(body.get("code")), errors.OperationalError)
    return kind(str(body.get("message", response.text)), hint=str(body.get("hint") or ""))


def subclasses(kind: type[errors.Error]) -> list[type[errors.Error]]:
    direct = kind.__subclasses__()
    return direct + [below for each in direct for below in subclasses(each)]
