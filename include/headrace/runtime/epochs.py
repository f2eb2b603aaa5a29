"""Epochs of leases compared with those recorded in targets: a catalog restored from a backup issues old epochs again."""

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
    """Raise the epoch of a lease that was fenced off by its own targets above the newest epoch in any of them.

    Returns:
        The lease with its new epoch; None if no target has a newer epoch than the lease, so another driver is ahead.

    Raises:
        FencedError: The lease has passed to another driver.
    """
    max_epoch = max((target_epoch(context, record) for record in context.catalog.jobs.all(lease.snode)), default=0)
    if max_epoch <= lease.epoch:
        return None
    raised = context.catalog.leases.raise_epoch(lease, max_epoch + 1, ttl_ms)
    message = f"raising epoch {lease.epoch}, which is older than epoch {max_epoch} of the targets, to {raised.epoch}"
    logger.warning("snode %s: %s", lease.snode, message)
    context.catalog.events.record("snode", lease.snode, "EPOCH_RAISED", message)
    return raised


def target_epoch(context: Context, record: JobRecord) -> int:
    """Return the newest epoch recorded in a stream's target; 0 if there is none, or the target cannot be read."""
    target = record.definition.target
    if target is None:
        return 0
    try:
        table = context.catalog.tables.get(target.database, target.name)
        return context.tables.transaction(table, epoch_app(record.definition.id)) or 0
    except Error as error:
        logger.warning("skipping the epoch of %s: %s", target, error.message)
        return 0
