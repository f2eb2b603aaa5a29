"""Epochs of leases against those that targets have seen: a catalog restored from a backup hands out old ones again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.errors import Error
from headrace.storage.delta.commits import epoch_app

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord
    from headrace.model.snodes import Lease
    from headrace.runtime.context import Context

logger = logging.getLogger(__name__)


def raise_epoch(context: Context, lease: Lease, ttl_ms: int) -> Lease | None:
    """Give a lease that fenced its own holder a newer epoch than any target of its streams has seen.

    Returns:
        The lease with its new epoch; None if no target has seen a newer epoch than the lease's, so that another driver is ahead.

    Raises:
        FencedError: The lease has passed to another driver.
    """
    seen = max((target_epoch(context, record) for record in context.catalog.jobs.all(lease.snode)), default=0)
    if seen <= lease.epoch:
        return None
    raised = context.catalog.leases.raise_epoch(lease, seen + 1, ttl_ms)
    message = f"epoch {lease.epoch} of the lease is older than epoch {seen} of the targets: it goes on with epoch {raised.epoch}"
    logger.warning("snode %s: %s", lease.snode, message)
    context.catalog.events.record("snode", lease.snode, "EPOCH_RAISED", message)
    return raised


def target_epoch(context: Context, record: JobRecord) -> int:
    """Return the newest epoch that a stream's target has seen; 0 if none, or if the target cannot be read."""
    target = record.definition.target
    if target is None:
        return 0
    try:
        table = context.catalog.tables.get(target.database, target.name)
        return context.tables.transaction(table, epoch_app(record.definition.id)) or 0
    except Error as error:
        logger.warning("skipping the epoch of %s: %s", target, error.message)
        return 0
