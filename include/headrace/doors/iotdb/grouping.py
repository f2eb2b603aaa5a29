"""Tablets of many connections, planned and written together.

A plan reads the catalog several times, however few rows its tablets have. So tablets that arrive while others are written wait, and
one of their threads plans and writes all of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.doors.iotdb.insertion import MissingSeriesError, plan_tablets, write_rights
from headrace.errors import Error, StorageError, TransientError

if TYPE_CHECKING:
    from headrace.doors.iotdb.tablets import Tablet
    from headrace.service.session import Session

MAX_GROUP_ROWS: Final = 20_000
"""Rows of a group, unless a single call has more."""
MAX_GROUPS: Final = 2
"""Groups of a user that are written at the same time: one is planned while the other is committed."""


@dataclass(eq=False, slots=True)
class Call:
    """A call that writes tablets. The thread that leads a group has the calls of it, its own first."""

    session: Session
    described: str
    tablets: Sequence[Tablet]
    turn: threading.Event = field(default_factory=threading.Event)
    group: list[Call] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(tablet.times) for tablet in self.tablets)


@dataclass(slots=True)
class Queue:
    """The calls of a user that wait, in the order of their arrival, and the number of groups that are written."""

    waiting: deque[Call] = field(default_factory=deque)
    groups: int = 0

    def start_group(self) -> None:
        """Have the call that has waited longest lead those that have arrived since."""
        leader = self.waiting.popleft()
        leader.group, rows = [leader], leader.rows
        while self.waiting and rows + self.waiting[0].rows <= MAX_GROUP_ROWS:
            rows += self.waiting[0].rows
            leader.group.append(self.waiting.popleft())
        leader.turn.set()


class TabletWriter:
    """Writes the tablets of calls, each call all or none. Thread-safe.

    Calls with the rights of the same user are written together if all of their series exist. If one of them fails, or a trigger
    may be called, each is written alone. What one connection sends is written in its order, since it waits for each answer.
    """

    def __init__(self) -> None:
        """Create it."""
        self._lock = threading.Lock()
        self._queues: defaultdict[str, Queue] = defaultdict(Queue)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for the groups before theirs."""
        with self._lock:
            return sum(len(queue.waiting) for queue in self._queues.values())

    def write(self, session: Session, described: str, tablets: Sequence[Tablet]) -> None:
        """Write tablets, and return when they are durable.

        Raises:
            Error: Nothing is written, unless the storage has failed.
        """
        own = Call(session, described, tablets)
        with self._lock:
            queue = self._queues[session.user]
            queue.waiting.append(own)
            if queue.groups < MAX_GROUPS:
                queue.groups += 1
                queue.start_group()
        own.turn.wait()
        if own.group:
            self._lead(queue, own.group)
        if own.error is not None:
            raise own.error

    def _lead(self, queue: Queue, group: Sequence[Call]) -> None:
        try:
            write_group(group)
        except BaseException as error:
            fail(group, error)
        finally:
            with self._lock:
                if queue.waiting:
                    queue.start_group()
                else:
                    queue.groups -= 1
            for call in group[1:]:
                call.turn.set()


def write_group(group: Sequence[Call]) -> None:
    """Write the tablets of calls; those that fail have their error."""
    session, tablets = group[0].session, [tablet for call in group for tablet in call.tablets]
    if len(group) == 1 or session.context.catalog.triggers.active():
        write_each(group)
        return
    try:
        session.run(plan_tablets(tablets, session, creates=False))
    except (StorageError, TransientError) as error:
        fail(group, error)
    except (MissingSeriesError, Error):
        # Nothing is written, and the error is that of one of them.
        write_each(group)


def write_each(group: Sequence[Call]) -> None:
    for call in group:
        try:
            write_alone(call.session, call.described, call.tablets)
        except BaseException as error:
            call.error = error


def write_alone(session: Session, described: str, tablets: Sequence[Tablet]) -> None:
    """Check the right to write before anything is looked up."""
    session.apply(described, write_rights(tablets), lambda: plan_tablets(tablets, session))


def fail(group: Sequence[Call], error: BaseException) -> None:
    for call in group:
        call.error = error
