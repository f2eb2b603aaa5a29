"""Removal of triggers, and completion of what a process that died has left of CREATE TRIGGER, DROP TRIGGER and a takeover."""

from __future__ import annotations

import logging
from typing import Final

from headrace.code.registration import collect_artifacts, keep_for_now
from headrace.context import Context
from headrace.errors import Error, TransientError
from headrace.model.failpoints import failpoint
from headrace.model.triggers import RegisteredTrigger, TriggerState
from headrace.trees.trigger_instances import hosted_trigger, lock_name, node_id

logger = logging.getLogger(__name__)

LOST_INSTANCE: Final = (
    "on_drop of trigger %s is called on a new instance, which restores what the trigger has stored: "
    "its instance at %s does not exist any more or cannot be reached"
)


def remove_trigger(context: Context, trigger: RegisteredTrigger) -> None:
    """Let no write call a trigger any more, call `on_drop`, and remove it. The caller holds its lock.

    A failure of `on_drop` is logged. It is called again if this process dies before the trigger is removed.
    """
    context.catalog.triggers.change(trigger.id, state=TriggerState.DROPPING.value)
    failpoint("triggers.dropping")
    try:
        drop_instance(context, trigger)
    except Error as error:
        logger.warning("trigger %s is dropped, although on_drop failed: %s", trigger.name, error.message)
    failpoint("triggers.dropped")
    keep_for_now(trigger.artifact, context.settings)
    context.catalog.triggers.remove(trigger.id)
    collect_artifacts(context.catalog, context.settings)


def drop_instance(context: Context, trigger: RegisteredTrigger) -> None:
    """Call `on_drop` of the instance where it lives; of a stateful trigger without one, on a new instance.

    Raises:
        Error: It failed.
    """
    if not trigger.is_stateful:
        hosted_trigger(context, trigger).drop()
        return
    if drop_here(context, trigger) or (context.drop_in_snode is not None and context.drop_in_snode(context, trigger)):
        return
    logger.warning(LOST_INSTANCE, trigger.name, trigger.node or "no process")
    hosted = hosted_trigger(context, trigger)
    hosted.create(context.catalog.triggers.entries(trigger.id), restores=True)
    hosted.drop()


def drop_here(context: Context, trigger: RegisteredTrigger) -> bool:
    """Call `on_drop` of a stateful trigger's instance if it lives in this process; return whether it does.

    Raises:
        Error: It failed.
    """
    return trigger.node == node_id() and hosted_trigger(context, trigger).drop()


def complete_interrupted(context: Context) -> None:
    """Complete what processes that died have left of triggers; what living processes are at is left to them.

    A trigger whose creation was interrupted is removed, and so is one that was being dropped. One whose takeover was interrupted is
    ACTIVE again: its next call creates an instance.
    """
    for trigger in context.catalog.triggers.interrupted():
        try:
            with context.catalog.lock(lock_name(trigger.name), timeout_ms=0):
                complete(context, trigger.name)
        except TransientError as error:
            logger.debug("%s", error.message)
        except Error as error:
            logger.warning("trigger %s is still %s: %s", trigger.name, trigger.state, error.message)


def complete(context: Context, name: str) -> None:
    """Complete what was interrupted of a trigger. The caller holds its lock."""
    trigger = context.catalog.triggers.find(name)
    if trigger is None:
        return
    if trigger.failure_strategy is None:
        context.catalog.triggers.remove(trigger.id)
    elif trigger.state is TriggerState.DROPPING:
        remove_trigger(context, trigger)
    elif trigger.state is TriggerState.TRANSFERRING:
        context.catalog.triggers.change(trigger.id, state=TriggerState.ACTIVE.value, node="")
