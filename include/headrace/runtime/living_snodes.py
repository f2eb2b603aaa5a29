"""The snodes that are alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.model.snodes import Heartbeat
from headrace.runtime.snode_client import SnodeEndpoint


def living_snodes(context: Context) -> Iterator[Heartbeat]:
    """Yield the last heartbeats of the snodes that are alive and serve statements, in the order in which to ask them for rows."""
    for name in context.settings.own_snodes:
        lease = context.catalog.leases.get(name)
        with suppress(NotFoundError):
            heartbeat = context.catalog.snodes.get(name)
            is_live = lease is not None and lease.epoch == heartbeat.epoch and lease.is_valid(context.catalog.now())
            if is_live and heartbeat.address and heartbeat.token:
                yield heartbeat


def endpoint_of(snode: Heartbeat, context: Context) -> SnodeEndpoint:
    """Return where a living snode serves requests."""
    return SnodeEndpoint(snode.snode, snode.epoch, str(snode.address), str(snode.token), context.settings.tls_certificate)


def living_endpoints(context: Context) -> Iterator[SnodeEndpoint]:
    """Yield where the living snodes serve requests, in the order in which to ask them for rows."""
    return (endpoint_of(snode, context) for snode in living_snodes(context))
