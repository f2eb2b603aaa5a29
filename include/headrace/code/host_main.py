"""The process that runs user code: it answers requests until its parent closes the pipe or does not need it any more.

It is started as `python -I -S -c …` by `host_process`. The modules of `headrace.code` that it imports import nothing of Headrace
but the public API, so that it starts fast and user code finds nothing of the system that runs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from functools import partial
from typing import Final

from headrace.code.attendants import hand_over
from headrace.code.host_operations import answer
from headrace.code.protocol import Channel, ChannelError
from headrace.code.sandbox import WITHOUT, Confinement, confine

IDLE_EXIT: Final = 75
"""Exit status of a host that has not been used for some time."""
CHANNEL_EXIT: Final = 76
"""Exit status of a host whose user code has closed the pipes."""
FIRST_REQUEST_S: Final = 30.0


def main(text: str) -> None:
    """Serve requests; `text` has the limits of the host."""
    options = json.loads(text)
    channel = take_pipes()
    missing = confine(Confinement(**options["confinement"]), partial(hand_over, options["handover_fd"]))
    redirect_output()
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


def redirect_output() -> None:
    """Let `print` write to the descriptor for errors, which the parent copies to the log."""
    sys.stdout = sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def flush_output() -> None:
    """Write what has been printed, unless user code has replaced or closed the streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
