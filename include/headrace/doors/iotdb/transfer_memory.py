"""Memory that clients share: open results, what requests of pipes are decompressed to, and slices of incomplete ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from headrace.doors.iotdb.results import MAX_RESULT_BYTES
from headrace.errors import DataError, OperationalError
from headrace.runtime.budget import Budget

MAX_BODY_BYTES: Final = 256 << 20
"""Bytes of a request after it is decompressed or joined."""
MAX_SLICES: Final = 10_000
MAX_EXPANDED_BYTES: Final = 512 << 20
"""Bytes to which all requests are decompressed at once."""
MAX_SLICED_BYTES: Final = 512 << 20
"""Bytes of all slices of requests that are not complete."""
IDLE_S: Final = 60.0
"""How long the next slice of a request may take before the request is dropped for others."""


@dataclass(slots=True)
class SlicedRequest:
    """A request that comes in parts."""

    owner: str
    order: int
    kind: int
    size: int
    received: int = 0
    parts: list[bytes] = field(default_factory=list)
    used: float = 0.0


class RequestMemory:
    """What the requests of all pipes of a server share. A user has half of it. Thread-safe."""

    def __init__(self) -> None:
        """Create it with all memory free."""
        self.results = Budget(MAX_RESULT_BYTES, MAX_RESULT_BYTES // 2)
        """What results take that are not read to their end."""
        self._expanded = Budget(MAX_EXPANDED_BYTES, MAX_EXPANDED_BYTES // 2)
        self._sliced: dict[Hashable, SlicedRequest] = {}
        self._lock = threading.Lock()

    def expanded(self, owner: str, size: int) -> AbstractContextManager[None]:
        """Have memory in the block for what a request of a user is decompressed to.

        Raises:
            OperationalError: There is none; the pipe sends the request again.
        """
        return self._expanded.at_once(owner, size, no_memory())

    def begin(self, sender: Hashable, request: SlicedRequest) -> None:
        """Begin to take the slices of a request, in place of any other of the sender."""
        with self._lock:
            self._sliced[sender] = request

    def add(self, sender: Hashable, slice_: tuple[int, int, int], part: bytes) -> SlicedRequest:
        """Take a slice, by order and type of its request and its place; return the request.

        Raises:
            DataError: It is not the next, or the request has more bytes than it should.
            OperationalError: There is no memory for it.
        """
        with self._lock:
            request = self._sliced.pop(sender, None)
            if request is None or (request.order, request.kind, len(request.parts)) != slice_:
                raise DataError(f"slice {slice_[2]} is out of order", hint="send the request again")
            if request.received + len(part) > request.size:
                raise DataError(f"the slices have more than {request.size} bytes", hint="send the request again")
            self._make_room(request.owner, request.received + len(part))
            request.parts.append(part)
            request.received += len(part)
            request.used = time.monotonic()
            self._sliced[sender] = request
        return request

    def forget(self, sender: Hashable) -> None:
        """Drop the slices of a sender. Idempotent."""
        with self._lock:
            self._sliced.pop(sender, None)

    def _make_room(self, owner: str, size: int) -> None:
        """Drop requests that do not continue, if slices of others need their memory."""
        oldest = time.monotonic() - IDLE_S
        if not self._fits(owner, size):
            self._sliced = {sender: one for sender, one in self._sliced.items() if one.used > oldest}
        if not self._fits(owner, size):
            raise no_memory()

    def _fits(self, owner: str, size: int) -> bool:
        held = list(self._sliced.values())
        own = sum(one.received for one in held if one.owner == owner)
        return own + size <= MAX_SLICED_BYTES // 2 and sum(one.received for one in held) + size <= MAX_SLICED_BYTES


def no_memory() -> OperationalError:
    return OperationalError("there is no memory for the request now", hint="send it again later")
