"""Epochs of leases compared with those recorded in targets: a catalog restored from a backup issues old epochs again."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.errors import Error
from headrace.storage.delta.commits import RETIRED, epoch_app

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.model.jobs import JobRecord
    from headrace.model.snodes import Lease

logger = logging.getLogger(__name__)

READ_THREADS: Final = 16


def raise_epoch(context: Context, lease: Lease, ttl_ms: int) -> Lease | None:
    """Raise the epoch of a lease that was fenced off by its own targets above the newest epoch in any of them.

    Returns None if no target has a newer epoch than the lease, so another driver is ahead.

    Raises:
        FencedError: The lease has passed to another driver.
    """
    newest = newest_target_epoch(context, lease.snode)
    if newest <= lease.epoch:
        return None
    raised = context.catalog.leases.raise_epoch(lease, newest + 1, ttl_ms)
    record_raised(context, lease, newest)
    return raised


def record_raised(context: Context, lease: Lease, newest: int) -> None:
    """Record that the epoch of a lease was raised above the newest one in its targets."""
    message = f"raising epoch {lease.epoch}, which is older than epoch {newest} of the targets"
    logger.warning("snode %s: %s", lease.snode, message)
    context.catalog.events.record("snode", lease.snode, "EPOCH_RAISED", message)


def newest_target_epoch(context: Context, snode: str) -> int:
    """Return the newest epoch recorded in the targets of an snode; 0 if there is none. On an object store this takes long."""
    with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="epochs") as pool:
        return max(pool.map(partial(target_epoch, context), context.catalog.jobs.parts(snode)), default=0)


def target_epoch(context: Context, record: JobRecord) -> int:
    """Return the newest epoch recorded in a stream's target; 0 if there is none, it is retired, or it cannot be read."""
    target = record.definition.target
    if target is None:
        return 0
    try:
        table = context.catalog.tables.get(target.database, target.name)
        epoch = context.tables.transaction(table, epoch_app(record.definition.id)) or 0
        return 0 if epoch == RETIRED else epoch
    except Error as error:
        logger.warning("skipping the epoch of %s: %s", target, error.message)
        return 0
