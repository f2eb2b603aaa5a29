"""The snode's HTTP endpoint on the loopback interface: SQL, health and metrics, behind a bearer token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement returned: rows, or None for a statement that returns none, and how many rows it changed."""

    rows: pa.Table | None
    affected: int = -1


RunSql = Callable[[str, str], Answer]
"""Runs one statement, `(sql, dialect)`; raises `headrace.errors.Error`. Called from several threads."""
