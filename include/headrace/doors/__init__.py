"""Doors: servers of an snode that speak the protocols of other clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.model.addresses import DOOR_NAMES

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.doors.gate import Gate
    from headrace.queries.running import RunningQueries
    from headrace.runtime.door import Door
    from headrace.runtime.http import SqlService


def tdengine(gate: Gate) -> Door | None:
    """Create the door `tdengine`; what this imports is only needed then."""
    from headrace.doors.tdengine.door import create_tdengine_door

    return create_tdengine_door(gate)


def iotdb(gate: Gate) -> Door | None:
    """Create the door `iotdb`; what this imports is only needed then."""
    from headrace.doors.iotdb.door import create_iotdb_door

    return create_iotdb_door(gate)


def flight(gate: Gate) -> Door | None:
    """Create the door `flight`; what this imports is only needed then."""
    from headrace.doors.flight import create_flight_door

    return create_flight_door(gate)


DOORS: Final[Sequence[Callable[[Gate], Door | None]]] = (flight, iotdb, tdengine)
"""Functions that create a door to a gate, or return None if the settings leave it closed."""


def create_service(context: Context, snode: str) -> tuple[SqlService, list[Door]]:
    """Return what `POST /sql` of an snode runs statements with, and its doors, which are not started yet.

    Both list and kill the same queries.
    """
    from headrace.queries.running import RunningQueries
    from headrace.service.endpoint import sql_runner

    queries = RunningQueries(context)
    return sql_runner(context, queries=queries), create_doors(context, snode, queries)


def create_doors(context: Context, snode: str, queries: RunningQueries) -> list[Door]:
    """Return the doors that the settings open, which are not started yet."""
    if not context.settings.doors:
        return []
    from headrace.doors.gate import Gate
    from headrace.service.authentication import authenticator

    context = with_group_commit(with_ports(context, snode))
    gate = Gate(context, authenticator(context), queries, max_connections=context.settings.door_connections)
    doors = [create(gate) for create in DOORS]
    return [door for door in doors if door is not None]


def with_ports(context: Context, snode: str) -> Context:
    """Return a context with the ports of an snode: those that share a machine have consecutive ones."""
    from headrace.runtime.sharing import port_of

    members = context.catalog.members.all()
    ports = {f"{name}_port": port_of(snode, members, getattr(context.settings, f"{name}_port")) for name in DOOR_NAMES}
    return replace(context, settings=context.settings.replace(ports))


def with_group_commit(context: Context) -> Context:
    """Return a context through which the writes of several clients to a table share commits, unless the settings say otherwise."""
    from headrace.storage.delta.group_commit import GroupCommit

    delay_ms, max_bytes = context.settings.group_commit_ms, context.settings.group_commit_bytes
    return replace(context, group_commit=GroupCommit(lambda: context.tables.writer, delay_ms, max_bytes)) if delay_ms else context
