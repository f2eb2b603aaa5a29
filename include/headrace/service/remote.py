"""Queries answered by the snode: its Spark is warm, a start of one here would take seconds."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

from headrace import errors
from headrace.model.snodes import Heartbeat
from headrace.model.spans import Span
from headrace.runtime.context import Context
from headrace.runtime.credentials import Identity, is_same, proof, session_token
from headrace.service.results import Result

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

ARROW: Final = "application/vnd.apache.arrow.stream"
# A query may take long; that nobody answers at all shows at once.
CONNECT_SECONDS: Final = 1.0
PROOF_SECONDS: Final = 5.0


def living_snode(context: Context) -> Heartbeat | None:
    """The snode's last heartbeat, where it lives, answers statements, and this process has no Spark session of its own."""
    if getattr(context.spark, "started", True):
        return None
    try:
        beat = context.catalog.snodes.get(context.settings.snode)
    except errors.NotFoundError:
        return None
    lease = context.catalog.leases.get(context.settings.snode)
    alive = lease is not None and lease.epoch == beat.epoch and lease.expires > context.catalog.now()
    return beat if alive and beat.address and beat.token else None


def ask(snode: Heartbeat, text: str, dialect: str, database: str | None) -> Result | None:
    """Have the snode answer a query.

    Returns:
        None if it cannot be reached from here, or if who answers at its address is not the snode that the catalog names.

    Raises:
        Error: As the snode raised it; `OperationalError` if it ends before it has answered.
    """
    import httpx
    import pyarrow as pa

    body = {"sql": text, "dialect": dialect, "database": database}
    with httpx.Client(base_url=str(snode.address), timeout=PROOF_SECONDS, trust_env=False) as client:
        if not is_genuine(client, snode):
            return None
        headers = {"Authorization": f"Bearer {session_token(str(snode.token), identity_of(snode))}", "Accept": ARROW}
        try:
            response = client.post("/sql", json=body, headers=headers, timeout=httpx.Timeout(None, connect=CONNECT_SECONDS))
        except httpx.HTTPError as error:
            raise errors.OperationalError(
                f"snode {snode.snode} at {snode.address} did not answer: {error}", hint="try again; see SHOW SNODES, and its log"
            ) from error
    if response.status_code != 200:
        raise raised(response)
    return Result(pa.ipc.open_stream(response.content).read_all())


def is_genuine(client: httpx.Client, snode: Heartbeat) -> bool:
    """Return True if who answers knows the snode's token and has its address and epoch. The token is not sent."""
    import httpx

    nonce = secrets.token_urlsafe(32)
    try:
        answer = client.get("/identity", params={"nonce": nonce}, timeout=httpx.Timeout(PROOF_SECONDS, connect=CONNECT_SECONDS))
        given = str(answer.json()["proof"]) if answer.status_code == 200 else ""
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        logger.warning("snode %s cannot be reached at %s, running the query here: %s", snode.snode, snode.address, error)
        return False
    if not is_same(given, proof(str(snode.token), nonce, identity_of(snode))):
        logger.warning("another process than snode %s answers at %s: running the query here", snode.snode, snode.address)
        return False
    return True


def identity_of(snode: Heartbeat) -> Identity:
    return Identity(snode.epoch, str(snode.address))


def raised(response: httpx.Response) -> errors.Error:
    """The error that the snode raised, of the same class, at the same place of the statement."""
    try:
        body: dict[str, Any] = response.json()
    except ValueError:
        body = {}
    kinds = {kind.code: kind for kind in subclasses(errors.Error)}
    kind = kinds.get(str(body.get("code")), errors.OperationalError)
    span = Span(*body["span"]) if body.get("span") else None
    return kind(str(body.get("message", response.text)), hint=str(body.get("hint") or ""), span=span, sql=body.get("sql"))


def subclasses(kind: type[errors.Error]) -> list[type[errors.Error]]:
    direct = kind.__subclasses__()
    return direct + [below for each in direct for below in subclasses(each)]
