"""Events: what happened to databases, jobs and snodes, for users to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """`time` in epoch milliseconds; `subject_kind` is `stream`, `snode`, …; `subject` its id or name.

    `kind` is a short word such as STOPPED.
    """

    time: int
    subject_kind: str
    subject: str
    kind: str
    message: str
