"""Events: what happened to databases, jobs and snodes, for users to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What happened (`kind`, such as STOPPED) to a subject: its id or name, and its kind (`stream`, `snode`, …)."""

    time: int
    subject_kind: str
    subject: str
    kind: str
    message: str
