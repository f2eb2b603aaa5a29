"""Queries run by a live snode, whose Spark session is warm; starting one here would take seconds."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from headrace import errors
from headrace.model.snodes import Heartbeat
from headrace.model.spans import Span
from headrace.runtime.context import Context
from headrace.runtime.credentials import Identity, are_equal, identity_proof, session_token
from headrace.service.results import Result

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

ARROW: Final = "application/vnd.apache.arrow.stream"
# A query may take long, but a process that listens accepts connections at once.
CONNECT_SECONDS: Final = 1.0
PROOF_SECONDS: Final = 5.0


def living_snodes(context: Context) -> Iterator[Heartbeat]:
    """Yield the last heartbeats of the snodes that are alive and serve statements, in the order in which to ask them for rows."""
    for name in context.settings.own_snodes:
        lease = context.catalog.leases.get(name)
        with suppress(errors.NotFoundError):
            heartbeat = context.catalog.snodes.get(name)
            is_live = lease is not None and lease.epoch == heartbeat.epoch and lease.expires > context.catalog.now()
            if is_live and heartbeat.address and heartbeat.token:
                yield heartbeat


def query_living_snode(context: Context, text: str, dialect: str, database: str | None) -> Result | None:
    """Have an snode that is alive run a query; None if this process should, for example since it has a Spark session of its own."""
    if getattr(context.spark, "started", True):
        return None
    results = (query_snode(snode, text, dialect, database) for snode in living_snodes(context))
    return next((result for result in results if result is not None), None)


def query_snode(snode: Heartbeat, text: str, dialect: str, database: str | None) -> Result | None:
    """Have the snode run a query.

    Returns:
        None if it cannot be reached from here, or if the process at its address is not the snode that the catalog names.

    Raises:
        Error: The snode raised it; `OperationalError` if it died before it responded.
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
        raise rebuild_error(response)
    if response.headers["content-type"] != ARROW:
        return Result()
    return Result(pa.ipc.open_stream(response.content).read_all())


def is_genuine(client: httpx.Client, snode: Heartbeat) -> bool:
    """Return True if the process at the snode's address proves to know its token, address and epoch. Does not send the token."""
    import httpx

    nonce = secrets.token_urlsafe(32)
    try:
        response = client.get("/identity", params={"nonce": nonce}, timeout=httpx.Timeout(PROOF_SECONDS, connect=CONNECT_SECONDS))
        received = str(response.json()["proof"]) if response.status_code == 200 else ""
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        logger.warning("snode %s cannot be reached at %s, running the query here: %s", snode.snode, snode.address, error)
        return False
    if not are_equal(received, identity_proof(str(snode.token), nonce, identity_of(snode))):
        logger.warning("another process than snode %s answers at %s: running the query here", snode.snode, snode.address)
        return False
    return True


def identity_of(snode: Heartbeat) -> Identity:
    """Return the identity that proofs and session tokens bind."""
    return Identity(snode.epoch, str(snode.address))


def rebuild_error(response: httpx.Response) -> errors.Error:
    """Rebuild the error that the snode raised: its class, message, hint and span."""
    try:
        body: dict[str, Any] = response.json()
    except ValueError:
        body = {}
    classes = {error_class.code: error_class for error_class in subclasses(errors.Error)}
    error_class = classes.get(str(body.get("code")), errors.OperationalError)
    span = Span(*body["span"]) if body.get("span") else None
    return error_class(str(body.get("message", response.text)), hint=str(body.get("hint") or ""), span=span, sql=body.get("sql"))


def subclasses(kind: type[errors.Error]) -> list[type[errors.Error]]:
    """Return all subclasses, direct and indirect."""
    direct = kind.__subclasses__()
    return direct + [descendant for child in direct for descendant in subclasses(child)]
