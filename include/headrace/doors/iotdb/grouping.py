"""Tablets of the calls of many clients, planned and written together.

A plan reads the catalog, and a commit takes milliseconds, however few rows the tablets have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.doors.gate import sharing_reads
from headrace.doors.iotdb.insertion import plan_calls, plan_tablets, write_rights
from headrace.doors.iotdb.storing import MissingSeriesError
from headrace.doors.iotdb.tablets import EncodedTablet, device_nodes, first_prefix
from headrace.errors import Error, ProgrammingError, StaleDefinitionError, TransientError, UserCodeError
from headrace.model.access import Principal
from headrace.model.paths import join_path
from headrace.trees.databases import DEFAULT_LEVEL

if TYPE_CHECKING:
    from headrace.doors.iotdb.tablets import AnyTablet
    from headrace.service.session import Session


@dataclass(eq=False, slots=True)
class TabletCall:
    """A call that writes tablets, all or none. Once it has been written, `error` is why it has failed, if it has."""

    session: Session
    described: str
    tablets: Sequence[AnyTablet]
    error: BaseException | None = None

    def databases(self, trees: Container[str]) -> frozenset[str]:
        """Return the databases that it writes to; `trees` are those that exist."""
        return frozenset(database_name(tablet, trees) for tablet in self.tablets)


def database_name(tablet: AnyTablet, trees: Container[str]) -> str:
    """Return the database of a tablet, which may have to be created; empty if its device has no valid path."""
    try:
        nodes = device_nodes(tablet.request.prefixPath) if isinstance(tablet, EncodedTablet) else tablet.device
    except ProgrammingError:
        return ""
    return first_prefix(nodes, trees) or join_path(nodes[:DEFAULT_LEVEL])


def write_calls(calls: Sequence[TabletCall]) -> None:
    """Write the tablets of calls, and return when they are durable. No error leaves it.

    Those to the same databases with the rights of the same user are written together, in their order, if all of their series exist.
    If one of them is wrong, or a trigger may be called, each is written alone. A database that cannot be written now fails the
    calls with tablets of it.
    """
    try:
        groups = group_calls(calls)
    except BaseException as error:  # of the catalog
        fail(calls, error)
        return
    for group in groups:
        try:
            with sharing_reads(group[0].session.context):
                write_group(group)
        except BaseException as error:  # of the storage, or the catalog
            fail(group, error)


def group_calls(calls: Sequence[TabletCall]) -> list[list[TabletCall]]:
    """Return calls by principal and databases."""
    if not calls:
        return []
    context = calls[0].session.context
    with sharing_reads(context):
        trees = frozenset(context.catalog.trees.databases())
    groups: dict[tuple[Principal, frozenset[str]], list[TabletCall]] = defaultdict(list)
    for call in calls:
        groups[call.session.principal, call.databases(trees)].append(call)
    return list(groups.values())


def write_group(group: Sequence[TabletCall]) -> None:
    """Write the tablets of calls to the same databases with the rights of one user."""
    session, tablets = group[0].session, [tablet for call in group for tablet in call.tablets]
    if session.context.catalog.triggers.active():
        write_each(group)
        return
    try:
        session.run(plan_calls(tablets, session))
    except (MissingSeriesError, Error) as error:
        if concerns_all(error):
            raise
        # Nothing is written, and the error is that of one of them.
        write_each(group)


def write_each(group: Sequence[TabletCall]) -> None:
    """Write the tablets of each call, until an error concerns all."""
    for number, call in enumerate(group):
        try:
            write_alone(call.session, call.described, call.tablets)
        except BaseException as error:
            call.error = error
            if concerns_all(error):
                fail(group[number:], error)
                return


def concerns_all(error: BaseException) -> bool:
    """Return whether each call to the same databases would fail likewise, mostly after waiting as long for a lock."""
    return isinstance(error, TransientError) and not isinstance(error, StaleDefinitionError | UserCodeError)


def write_alone(session: Session, described: str, tablets: Sequence[AnyTablet]) -> None:
    """Write tablets, all or none. The right to write is checked before anything is looked up.

    Raises:
        Error: Nothing is written, unless the storage has failed.
    """
    decoded = [tablet.decode() if isinstance(tablet, EncodedTablet) else tablet for tablet in tablets]
    session.apply(described, write_rights(decoded), lambda: plan_tablets(decoded, session))


def fail(group: Iterable[TabletCall], error: BaseException) -> None:
    for call in group:
        call.error = error
