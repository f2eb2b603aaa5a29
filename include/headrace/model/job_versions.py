"""Versions of a job's definition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobVersion:
    """The statement that defined a job from an instant on (epoch ms), by a user. Numbers begin with 1."""

    job_id: str
    number: int
    time: int
    user_name: str
    sql: str
