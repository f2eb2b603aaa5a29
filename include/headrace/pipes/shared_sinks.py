"""Sinks that several pipes of a driver share, because their attributes are equal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import Error, UserCodeError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import Delivery, Sink

logger = logging.getLogger(__name__)

HEARTBEAT_S: Final = 20.0
"""A sink that has delivered nothing for this long checks that its receiver answers."""
SinkKey = tuple[tuple[str, str], ...]


def key_of(attributes: PipeAttributes, owner: str = "") -> SinkKey:
    """Return what pipes share a sink by: their attributes, as typed, and the owner if the sink acts with the owner's rights."""
    return (("", owner), *sorted(attributes.items()))


@dataclass(slots=True)
class SharedSink:
    """A sink and its users. It is connected by the first delivery, and again after a failure. Thread-safe.

    `failure` is why the last heartbeat failed, until a heartbeat or a delivery succeeds.
    """

    key: SinkKey
    create: Callable[[], Sink]
    users: set[str] = field(default_factory=set)
    used_at: float | None = None
    failure: Error | None = None
    _sink: Sink | None = None
    _is_connected: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def transfer(self, delivery: Delivery) -> None:
        """Deliver events. After a failure, the next delivery connects again."""
        with self._lock:
            self._run(lambda sink: sink.transfer(delivery))
            self.failure = None

    def connect(self) -> None:
        """Connect, unless it is connected."""
        with self._lock:
            self._run(lambda _: None)

    def beat(self) -> None:
        """Check the receiver of a sink that was connected and has had nothing to deliver for a while; connect again if it fails."""
        is_due = self.used_at is not None and time.monotonic() - self.used_at >= HEARTBEAT_S
        if not is_due or not self._lock.acquire(blocking=False):
            return
        was_connected = self._is_connected
        try:
            self._run(lambda sink: sink.heartbeat())
            self.failure = None
        except Error as error:
            logger.warning("the receiver of a sink does not answer: %s", error.message)
            self.failure = error
            if was_connected:
                with suppress(Error):  # the next heartbeat tries again
                    self._run(lambda _: None)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the sink."""
        with self._lock:
            self._discard()

    def _run(self, use: Callable[[Sink], None]) -> None:
        try:
            if self._sink is None:
                self._sink = self.create()
            if not self._is_connected:
                self._sink.handshake()
                self._is_connected = True
            use(self._sink)
        except UserCodeError:
            self._is_connected = False  # its process stays, which takes seconds to start
            raise
        except BaseException:
            self._discard()
            raise
        finally:
            self.used_at = time.monotonic()

    def _discard(self) -> None:
        sink, self._sink, self._is_connected = self._sink, None, False
        if sink is not None:
            with suppress(Exception):  # what has failed may fail again while it is closed
                sink.close()


class SharedSinks:
    """The sinks of a driver by their attributes. Thread-safe."""

    def __init__(self) -> None:
        self._sinks: dict[SinkKey, SharedSink] = {}
        self._lock = threading.Lock()

    def take(self, attributes: PipeAttributes, user: str, create: Callable[[], Sink], owner: str = "") -> SharedSink:
        """Return the sink of some attributes for a pipe, given its id; it is created if no other pipe has it.

        With an owner, it is shared with pipes of that owner alone.
        """
        key = key_of(attributes, owner)
        with self._lock:
            sink = self._sinks.setdefault(key, SharedSink(key, create))
            sink.users.add(user)
            return sink

    def give_back(self, sink: SharedSink, user: str) -> None:
        """Release a sink, which is closed when its last user has released it."""
        with self._lock:
            sink.users.discard(user)
            is_unused = not sink.users and self._sinks.get(sink.key) is sink
            if is_unused:
                del self._sinks[sink.key]
        if is_unused:
            sink.close()

    def users(self, key: SinkKey) -> frozenset[str]:
        """Return the ids of the pipes that share a sink."""
        with self._lock:
            return frozenset(self._sinks[key].users) if key in self._sinks else frozenset()

    def beat(self) -> Mapping[str, Error | None]:
        """Check the receivers of sinks that have had nothing to deliver for a while.

        Returns:
            Why the receiver of each pipe does not answer, by the pipe's id; None if it does.
        """
        for sink in list(self._sinks.values()):
            sink.beat()
        with self._lock:
            return {user: sink.failure for sink in self._sinks.values() for user in sink.users}
