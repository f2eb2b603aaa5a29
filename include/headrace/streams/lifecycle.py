"""What happens to a stream as a whole: begin, activate after a history, skip, rebuild, forget."""

from __future__ import annotations

from headrace.model.streams import StreamProgress
from headrace.streams.context import Context
from headrace.streams.define import StreamPlan
from headrace.streams.state import State


def prepare_target(context: Context, plan: StreamPlan) -> bool:
    """Create the target where it does not exist; True when it was created."""
    raise NotImplementedError


def begin(context: Context, plan: StreamPlan) -> StreamProgress:
    """Start a recorded stream without history: at the source's present version, with an empty state. Records the progress."""
    raise NotImplementedError


def rebuild(context: Context, plan: StreamPlan, version: int) -> State:
    """The state as of a source version, from the stored rows: as if they all had come in order.

    Windows that are still open are held; all others count as emitted. One scan of timestamps, and the rows of open windows.
    """
    raise NotImplementedError


def activate(context: Context, plan: StreamPlan, boundary: int) -> StreamProgress:
    """Go live after a history whose rows up to source version `boundary` are in the target. Records the progress."""
    raise NotImplementedError


def skip(context: Context, plan: StreamPlan) -> StreamProgress:
    """Jump to the source's present version without handling what lies between (`RESUME STREAM … IGNORE UNTREATED`)."""
    raise NotImplementedError


def forget(context: Context, stream_id: str) -> None:
    """Remove a dropped stream's state; the target keeps its rows."""
    raise NotImplementedError
