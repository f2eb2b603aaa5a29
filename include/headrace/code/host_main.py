"""The process that runs user code: it answers requests until its parent closes the pipe or does not need it any more.

It is started as `python -I -S -c …` by `host_process`. The modules of `headrace.code` that it imports import nothing of Headrace
but the public API, so that it starts fast and user code finds nothing of the system that runs it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Final

from headrace.code.host_operations import answer
from headrace.code.protocol import Channel, ChannelError
from headrace.code.sandbox import WITHOUT, Confinement, confine

if TYPE_CHECKING:
    from typing_extensions import Buffer

IDLE_EXIT: Final = 75
"""Exit status of a host that has not been used for some time."""
CHANNEL_EXIT: Final = 76
"""Exit status of a host whose user code has closed the pipes."""
FIRST_REQUEST_S: Final = 30.0
LOG_NOTE: Final = b"\n(further output is left out)\n"


def main(text: str) -> None:
    """Serve requests; `text` has the limits of the host."""
    options = json.loads(text)
    channel = take_pipes()
    missing = confine(Confinement(**options["confinement"]))
    redirect_output(options["log_bytes"])
    for guard in missing:
        sys.stderr.write(f"{WITHOUT[guard]}\n")
    preload()
    channel.send({"ready": True, "missing_guards": missing})
    os._exit(serve(channel, options["idle_s"]))


def take_pipes() -> Channel:
    """Return the pipes to the parent, and put others in their place: no input, and the log for output."""
    channel = Channel(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return channel


def preload() -> None:
    """Import what calls need, so that the time limit of the first call is for user code alone.

    It comes after the confinement, which would not hold for threads that are there before.
    """
    from headrace.code import aggregate_operations, series_operations  # noqa: F401


def serve(channel: Channel, idle_s: float) -> int:
    """Answer requests, one after the other; return the exit status."""
    # A host is started for a request: it must not end before that arrives, however short the time is.
    wait_s = max(idle_s, FIRST_REQUEST_S)
    while channel.is_readable(wait_s):
        try:
            request = channel.receive()
        except ChannelError:
            return 0
        header, table = answer(request)
        flush_output()
        try:
            channel.send({**header, "request": request.header["request"]}, table)
        except ChannelError:
            return CHANNEL_EXIT
        wait_s = idle_s
    return IDLE_EXIT


class Log(io.RawIOBase):
    """The log, up to a size. What user code prints beyond it is left out, so that printing much is no error."""

    def __init__(self, max_bytes: int) -> None:
        """Write to the descriptor for errors, which is the log."""
        self._room = max(max_bytes - os.fstat(2).st_size - len(LOG_NOTE), 0)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write as much as there is room for, and claim that it was all."""
        text = memoryview(data)
        part = text[: self._room]
        with contextlib.suppress(OSError):
            if part:
                os.write(2, part)
            if self._room and len(part) < len(text):
                os.write(2, LOG_NOTE)
        self._room -= len(part)
        return len(text)


def redirect_output(max_bytes: int) -> None:
    """Let `print` write to the log."""
    log = io.BufferedWriter(Log(max_bytes))
    sys.stdout = sys.stderr = io.TextIOWrapper(log, "utf-8", "backslashreplace", line_buffering=False, write_through=True)


def flush_output() -> None:
    """Write what has been printed, unless user code has replaced or closed the streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
