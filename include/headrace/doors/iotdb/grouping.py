"""Tablets of the calls of many clients, planned and written together.

A plan reads the catalog, and a commit takes milliseconds, however few rows the tablets have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.doors.gate import sharing_reads
from headrace.doors.iotdb.insertion import plan_calls, plan_tablets, write_rights
from headrace.doors.iotdb.storing import MissingSeriesError
from headrace.doors.iotdb.tablets import EncodedTablet
from headrace.errors import Error, StorageError, TransientError

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

    @property
    def user(self) -> str:
        """Whose rights apply."""
        return self.session.user


def write_calls(calls: Sequence[TabletCall]) -> None:
    """Write the tablets of calls, and return when they are durable. No error leaves it.

    Those with the rights of the same user are written together, in their order, if all of their series exist. If one of them
    fails, or a trigger may be called, each is written alone.
    """
    by_user = attrgetter("user")
    for _, own in groupby(sorted(calls, key=by_user), by_user):
        group = list(own)
        try:
            with sharing_reads(group[0].session.context):
                write_group(group)
        except BaseException as error:  # of the storage, or the catalog
            fail(group, error)


def write_group(group: Sequence[TabletCall]) -> None:
    """Write the tablets of calls with the rights of one user."""
    session, tablets = group[0].session, [tablet for call in group for tablet in call.tablets]
    if session.context.catalog.triggers.active():
        write_each(group)
        return
    try:
        session.run(plan_calls(tablets, session))
    except (StorageError, TransientError):
        raise
    except (MissingSeriesError, Error):
        # Nothing is written, and the error is that of one of them.
        write_each(group)


def write_each(group: Iterable[TabletCall]) -> None:
    for call in group:
        try:
            write_alone(call.session, call.described, call.tablets)
        except BaseException as error:
            call.error = error


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
