"""The instances of triggers: of a stateless one in each process that writes, of a stateful one a single living one.

A stateful trigger is called under a lock of its own, and the catalog says which process has its instance. A process that does not
have it creates one, which restores what the trigger has stored, and is the one that has it from then on: the older instance is
never called again.
"""

from __future__ import annotations

import os
import socket
import uuid
from functools import cache
from typing import Final

from headrace.code.answers import Changes
from headrace.code.hosts import MAX_ATTEMPTS, lost_hosts
from headrace.code.triggers import CreatedInstance, FireResult, HostedTrigger, TabletRows
from headrace.context import Context
from headrace.model.failpoints import failpoint
from headrace.model.triggers import RegisteredTrigger, TriggerState


def call_trigger(context: Context, trigger: RegisteredTrigger, rows: TabletRows) -> FireResult:
    """Call a trigger where its instance is, and store what it has stored.

    Raises:
        Error: It failed.
    """
    if not trigger.is_stateful:
        return hosted_trigger(context, trigger).fire_stateless(rows)
    result = None if context.call_in_snode is None else context.call_in_snode(context, trigger, rows)
    return call_here(context, trigger.name, trigger.id, rows) if result is None else result


def call_here(context: Context, name: str, id_: str, rows: TabletRows) -> FireResult:
    """Call a stateful trigger in this process, which takes its instance over if it does not have it.

    Raises:
        Error: It failed.
    """
    with context.catalog.lock(lock_name(name)):
        present = context.catalog.triggers.find(name)
        if present is None or present.id != id_ or not present.is_active:
            return FireResult()  # it has been dropped or stopped since
        result = fire_here(context, present, rows)
        failpoint("triggers.called")
        store(context, present, result.changes)
        failpoint("triggers.stored")
        return result


def fire_here(context: Context, trigger: RegisteredTrigger, rows: TabletRows) -> FireResult:
    """Call a stateful trigger in a host of this process, which takes its instance over if it does not have it."""
    hosted = hosted_trigger(context, trigger)
    is_taken_over = trigger.node != node_id()
    for _ in range(MAX_ATTEMPTS):
        result = None if is_taken_over else hosted.fire(rows)
        if result is not None:
            return result
        create_here(context, trigger, restores=True)
        is_taken_over = False
    result = hosted.fire(rows)
    if result is None:
        raise lost_hosts(f"trigger {trigger.name}")
    return result


def create_here(context: Context, trigger: RegisteredTrigger, *, restores: bool = False) -> CreatedInstance:
    """Create the instance of a trigger in a host of this process, and record that it has it if the trigger is stateful."""
    triggers = context.catalog.triggers
    if not trigger.is_stateful:
        return hosted_trigger(context, trigger).create({})
    if restores:
        triggers.change(trigger.id, state=TriggerState.TRANSFERRING.value)
    failpoint("triggers.transferring")
    created = hosted_trigger(context, trigger).create(triggers.entries(trigger.id), restores=restores)
    store(context, trigger, created.changes)
    state = {"state": TriggerState.ACTIVE.value} if restores else {}
    triggers.change(trigger.id, node=node_id(), **state)
    return created


def store(context: Context, trigger: RegisteredTrigger, changes: Changes) -> None:
    """Write what a stateful trigger has stored to the catalog."""
    if changes:
        context.catalog.triggers.store_entries(trigger.id, changes)


def hosted_trigger(context: Context, trigger: RegisteredTrigger) -> HostedTrigger:
    """Return a trigger with its code on this machine."""
    key = (trigger.id, str(context.settings.home), context.settings.warehouse)
    if key not in _hosted:
        _hosted[key] = HostedTrigger.of(trigger, context.settings)
    return _hosted[key]


_hosted: Final[dict[tuple[str, ...], HostedTrigger]] = {}


def lock_name(name: str) -> str:
    """Return the lock under which the trigger of a name is created, dropped, and called if it is stateful."""
    return f"trigger {name}"


@cache
def _node_of(_: int) -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def node_id() -> str:
    """Return what identifies this process among those that may have the instance of a trigger."""
    return _node_of(os.getpid())
