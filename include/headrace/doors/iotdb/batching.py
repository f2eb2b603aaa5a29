"""Calls that write tablets: those that arrive while others are written wait, and are read, written and answered together.

A thread for each call, and its waits, would take longer than the few rows that devices in the field send at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from headrace.doors.iotdb.calls import PARAMETERS, answer_failure, check_complete
from headrace.doors.iotdb.grouping import TabletCall, write_calls
from headrace.doors.iotdb.statuses import success
from headrace.doors.iotdb.wire import Call, MalformedCallError, method_of, read_call, write_answer
from headrace.doors.iotdb.writes import READERS

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client

MAX_BATCH_BYTES: Final = 4 << 20
"""Frames that are handled together have at most this size, unless there is only one."""
MANY: Final = 1_000_000
Frame = tuple["Client", bytes]
Answer = bytes | MalformedCallError
"""The frame of an answer, or why a frame is no call."""
Reply = Callable[[Answer], None]


def writes_tablets(frame: bytes) -> bool:
    """Return whether a frame is a call that writes tablets."""
    return method_of(frame) in READERS


class WriteBatches:
    """Answers calls that write tablets. Used in one event loop.

    There is one batch at a time: two would mostly wait for each other's use of the interpreter.
    What one connection sends is written in its order, since each call waits for its answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor, delay_ms: int) -> None:
        """Take the threads that handle batches, and how long the first call waits for others; 0 handles each call alone."""
        self._loop, self._executor, self._delay_s = loop, executor, delay_ms / 1_000
        self._waiting: deque[tuple[Frame, Reply]] = deque()
        self._is_running = False
        self._timer: asyncio.TimerHandle | None = None
        self._expected = 0

    @property
    def waiting(self) -> int:
        """The number of calls that wait for the batches before theirs."""
        return len(self._waiting)

    def submit(self, client: Client, frame: bytes, reply: Reply) -> None:
        """Handle a call, and call `reply` with the answer once its rows are durable or it has failed."""
        self._waiting.append(((client, frame), reply))
        if self._is_running:
            return
        if self._timer is None:
            self._gather(MANY)
        elif len(self._waiting) >= self._expected:
            self._start()

    def _gather(self, expected: int) -> None:
        """Handle what waits once there are as many calls as expected, or after the delay."""
        self._expected = expected
        if len(self._waiting) >= expected or not self._delay_s:
            self._start()
        else:
            self._timer = self._loop.call_later(self._delay_s, self._start)

    def _start(self) -> None:
        """Handle the calls that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._take()
        self._is_running = bool(batch)
        if batch:
            running = self._loop.run_in_executor(self._executor, answer_batch, [frame for frame, _ in batch])
            running.add_done_callback(partial(self._finish, [reply for _, reply in batch]))

    def _finish(self, replies: Sequence[Reply], done: asyncio.Future[list[Answer]]) -> None:
        if done.cancelled():
            return
        try:
            for reply, answer in zip(replies, done.result(), strict=True):
                reply(answer)
        finally:
            self._is_running = False
            # Most clients whose calls were answered send the next one at once.
            self._gather(len(replies) + len(self._waiting))

    def _take(self) -> list[tuple[Frame, Reply]]:
        """Take the calls of a batch from those that wait."""
        batch: list[tuple[Frame, Reply]] = []
        size = 0
        limit = MAX_BATCH_BYTES if self._delay_s else 0
        while self._waiting and (not batch or size + len(self._waiting[0][0][1]) <= limit):
            size += len(self._waiting[0][0][1])
            batch.append(self._waiting.popleft())
        return batch


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call, with what it writes, or why that cannot be read."""

    call: Call
    write: TabletCall | None
    error: BaseException | None = None

    def answer(self) -> bytes:
        """Return the frame of the answer, once the tablets have been written."""
        error = self.error if self.write is None else self.write.error
        call = self.call
        return success_frame(call.method, call.number, call.is_compact) if error is None else answer_failure(call, error)


def answer_batch(batch: Sequence[Frame]) -> list[Answer]:
    """Return the answers to calls, once their rows are durable or they have failed. No error leaves it."""
    received = [receive(client, frame) for client, frame in batch]
    write_calls([one.write for one in received if isinstance(one, ReceivedCall) and one.write is not None])
    return [one.answer() if isinstance(one, ReceivedCall) else one for one in received]


def receive(client: Client, frame: bytes) -> ReceivedCall | MalformedCallError:
    """Read a call."""
    try:
        call = read_call(frame, PARAMETERS)
    except MalformedCallError as error:
        return error
    try:
        check_complete(call)
        own = READERS[call.method](*call.arguments)
        return ReceivedCall(call, TabletCall(client.begin(own.described), own.described, own.tablets))
    except Exception as error:  # whatever a call raises is the client's answer
        return ReceivedCall(call, None, error)


@lru_cache(maxsize=4_096)
def success_frame(method: str, number: int, is_compact: bool) -> bytes:
    """Return the frame that a call has succeeded; clients mostly give their calls the same few numbers."""
    return write_answer(Call(method, number, (), is_compact), success())
