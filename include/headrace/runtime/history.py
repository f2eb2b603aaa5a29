"""The history of a stream: rows up to its boundary, computed in chunks, and the step from there to the live stream.

The boundary is the source version fixed by CREATE STREAM. Chunks are evaluated at exactly that version, so what is written
meanwhile is neither lost nor doubled: it lies after the boundary and the live stream takes it from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.model.streams import Chunk
from headrace.model.time import Duration
from headrace.runtime.context import Context, Progress, silent

HISTORY: Final = "history"
"""The run in the ledger that fills a stream's history; other runs are manual recomputations."""


def plan_chunks(
    context: Context,
    stream_id: str,
    run: str = HISTORY,
    *,
    start: int | None = None,
    end: int | None = None,
    rows: int | None = None,
    duration: Duration | None = None,
) -> list[Chunk]:
    """Cut a stream's source into chunks and record them in the ledger; the same run gives the same chunks ever after.

    Needs no Spark. `start` and `end` bound the window starts, in ticks of the source (`[start, end)`); chunks have about
    `rows` rows (default: the setting `chunk_rows`) or, with `duration`, that length. Windows without a bound on their length
    (SESSION, STATE, EVENT, COUNT) make one chunk. A source without rows makes none.

    Raises:
        NotFoundError: no such stream.
        LimitError: `duration` makes more chunks than a run may have.
        InvalidStreamError: a manual run while the history is still being filled, or over windows that cannot be cut.
    """
    raise NotImplementedError


def fill_chunk(context: Context, stream_id: str, run: str, number: int, progress: Progress = silent) -> Chunk:
    """Compute one chunk and write its windows to the target; the chunk as it stands afterwards (DONE).

    Doing it again, from anywhere, changes nothing: the commit carries a Delta transaction of (stream, run, chunk), and a
    chunk replaces exactly the windows it owns. When it fails, the ledger says FAILED with the message, and the error is raised.

    Raises:
        NotFoundError: no such stream, run or chunk.
        OperationalError: Spark or storage failed; may be tried again.
    """
    raise NotImplementedError


def activate(context: Context, stream_id: str) -> None:
    """Hand a stream whose history is filled to its snode: the feed goes on from boundary + 1. Needs no Spark; idempotent.

    Raises:
        OperationalError: chunks of the history are not DONE; the message names them.
    """
    raise NotImplementedError


def fill_history(context: Context, stream_id: str, progress: Progress = silent) -> None:
    """Plan, fill all chunks in this process, and activate: what the embedded connection and an snode run by hand do."""
    raise NotImplementedError


def recompute(
    context: Context, stream_id: str, run: str, start: int, end: int, *, progress: Progress = silent, rows: int | None = None
) -> Sequence[Chunk]:
    """Compute the closed windows of `[start, end)` of a stream again, in this process: plan and fill all chunks of a manual run.

    `headrace backfill` does this; Airflow does the same in parts (`plan_chunks` with start and end, then `fill_chunk` for each).
    """
    raise NotImplementedError
