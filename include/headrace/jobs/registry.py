"""The registry of kinds of jobs. What differs by kind is looked up here, and an unknown kind is an error."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Final

from headrace.errors import UnknownKindError

if TYPE_CHECKING:
    from headrace.jobs.kinds import JobKind
    from headrace.model.jobs import JobDefinition

PACKAGES: Final = ("headrace.streams.kind", "headrace.queries.kind", "headrace.pipes.kind")
"""The modules with the kinds of this installation, each named `KIND`, in the order in which kinds are shown."""
_KINDS: Final[dict[str, JobKind]] = {}


def register(kind: JobKind) -> None:
    """Add a kind.

    Raises:
        ValueError: Its name or its prefix of DAGs is taken.
    """
    _import_packages()
    _add(kind)


def _add(kind: JobKind) -> None:
    for other in _KINDS.values():
        if other.name == kind.name or other.dag_prefix.startswith(kind.dag_prefix) or kind.dag_prefix.startswith(other.dag_prefix):
            raise ValueError(f"kinds of jobs {other.name!r} and {kind.name!r} are not distinct")
    _KINDS[kind.name] = kind


def unregister(name: str) -> None:
    """Remove a kind."""
    del _KINDS[name]


def kinds() -> tuple[JobKind, ...]:
    """Return all kinds, in the order in which they are shown."""
    _import_packages()
    return tuple(_KINDS.values())


def is_known(name: str) -> bool:
    """Return whether a kind is registered."""
    _import_packages()
    return name in _KINDS


def kind_of(job: JobDefinition | str) -> JobKind:
    """Return the kind of a job, or of a name.

    Raises:
        UnknownKindError: No package has registered it.
    """
    name = job if isinstance(job, str) else job.kind
    if not is_known(name):
        raise unknown_kind(name)
    return _KINDS[name]


def unknown_kind(name: str) -> UnknownKindError:
    """Return the error for a kind that is not registered."""
    hint = f"use the version of Headrace that created it; this one has {', '.join(kind.plural for kind in kinds())}"
    return UnknownKindError(f"jobs of the kind {name} are not known", hint=hint)


@functools.cache
def _import_packages() -> None:
    for module in PACKAGES:
        _add(import_module(module).KIND)
