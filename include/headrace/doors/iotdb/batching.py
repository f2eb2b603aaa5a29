"""Calls that write tablets: those of many clients are read, written and answered together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from headrace.doors.batches import Batches
from headrace.doors.iotdb.calls import PARAMETERS, answer_failure, check_complete
from headrace.doors.iotdb.grouping import TabletCall, write_calls
from headrace.doors.iotdb.statuses import success
from headrace.doors.iotdb.wire import Call, MalformedCallError, method_of, read_call, write_answer
from headrace.doors.iotdb.writes import READERS

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client

MAX_BATCH_BYTES: Final = 4 << 20
"""Frames that are handled together have at most this size, unless there is only one."""
Frame = tuple["Client", bytes]
Answer = bytes | MalformedCallError
"""The frame of an answer, or why a frame is no call."""


def writes_tablets(frame: bytes) -> bool:
    """Return whether a frame is a call that writes tablets."""
    return method_of(frame) in READERS


def write_batches(executor: Executor, delay_ms: int) -> Batches[Frame, Answer]:
    """Return what answers calls that write tablets. What one connection sends is in order, since each call waits for its answer."""
    return Batches(executor, answer_batch, frame_size, delay_s=delay_ms / 1_000, max_bytes=MAX_BATCH_BYTES)


def frame_size(frame: Frame) -> int:
    return len(frame[1])


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
