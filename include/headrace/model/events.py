"""Events: what happened to databases, jobs and snodes, for users to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What happened (`kind`, such as STOPPED) to a subject (a `stream`, `snode`, …) at a `time` in epoch milliseconds."""

    time: int
    subject_kind: str
    subject: str
    kind: str
    message: str
