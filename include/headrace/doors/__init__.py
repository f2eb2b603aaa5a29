"""Doors: servers of an snode that speak the protocols of other clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.doors.gate import Gate
    from headrace.runtime.door import Door


def tdengine(gate: Gate) -> Door | None:
    """Create the door `tdengine`; what this imports is only needed then."""
    from headrace.doors.tdengine.door import create_tdengine_door

    return create_tdengine_door(gate)


def iotdb(gate: Gate) -> Door | None:
    """Create the door `iotdb`; what this imports is only needed then."""
    from headrace.doors.iotdb.door import create_iotdb_door

    return create_iotdb_door(gate)


DOORS: Final[Sequence[Callable[[Gate], Door | None]]] = (iotdb, tdengine)
"""Functions that create a door to a gate, or return None if the settings leave it closed."""


def create_doors(context: Context) -> list[Door]:
    """Return the doors that the settings open, which are not started yet."""
    if not DOORS:
        return []
    from headrace.doors.gate import Gate
    from headrace.queries.running import RunningQueries
    from headrace.service.authentication import authenticator

    gate = Gate(with_group_commit(context), authenticator(context), RunningQueries(context))
    doors = [create(gate) for create in DOORS]
    return [door for door in doors if door is not None]


def with_group_commit(context: Context) -> Context:
    """Return a context through which the writes of several clients to a table share commits, unless the settings say otherwise."""
    from headrace.storage.delta.group_commit import GroupCommit

    delay_ms, max_bytes = context.settings.group_commit_ms, context.settings.group_commit_bytes
    return replace(context, group_commit=GroupCommit(lambda: context.tables.writer, delay_ms, max_bytes)) if delay_ms else context
