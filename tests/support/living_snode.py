"""An snode that is alive, as far as it answers statements: its lease, its heartbeat, and its HTTP endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from headrace.context import Context
from headrace.runtime.credentials import Identity
from headrace.runtime.http import Guard, Health, create_app
from headrace.runtime.http_server import Endpoint
from headrace.service.endpoint import sql_runner

HOLDER = "elsewhere:1:a"
LEASE_MS = 3_600_000
TOKEN = "token"


@contextmanager
def living_snode(context: Context, name: str = "default", detail: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Endpoint]:
    """Serve statements on a context as an snode of a name does, in threads of this process; `detail` is that of its heartbeat."""
    catalog, runner = context.catalog, sql_runner(context)
    lease = catalog.leases.acquire(name, HOLDER, LEASE_MS)
    assert lease is not None
    guard = Guard(TOKEN, "", lambda: Identity(lease.epoch, endpoint.address))
    app = create_app(guard, runner, lambda: Health(True, {}), str, cancel=runner.cancel, vouch=runner.vouch, abandon=runner.abandon)
    endpoint = Endpoint(app)
    endpoint.start()
    renewed = catalog.leases.renew(replace(lease, address=endpoint.address), LEASE_MS)
    catalog.snodes.beat(renewed, token=TOKEN, detail=dict(detail))
    try:
        yield endpoint
    finally:
        endpoint.stop()
        catalog.leases.release(renewed)
