"""Doors: servers of an snode that speak the protocols of other clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.doors.gate import Gate
    from headrace.runtime.door import Door


def flight(gate: Gate) -> Door | None:
    """Create the door `flight`; what this imports is only needed then."""
    from headrace.doors.flight import create_flight_door

    return create_flight_door(gate)


DOORS: Final[Sequence[Callable[[Gate], Door | None]]] = (flight,)
"""Functions that create a door to a gate, or return None if the settings leave it closed."""


def create_doors(context: Context) -> list[Door]:
    """Return the doors that the settings open, which are not started yet."""
    if not DOORS:
        return []
    from headrace.doors.gate import Gate
    from headrace.queries.running import RunningQueries
    from headrace.service.authentication import authenticator

    gate = Gate(context, authenticator(context), RunningQueries(context))
    doors = [create(gate) for create in DOORS]
    return [door for door in doors if door is not None]
