"""Sockets of doors that serve thousands of clients in one thread."""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Final

SPARE_FILES: Final = 1_024


def peer_name(transport: asyncio.BaseTransport) -> str:
    """Return the address of a client, as host:port."""
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "?"


def allow_files(connections: int) -> None:
    """Let the process have as many open files as connections need, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
