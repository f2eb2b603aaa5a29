"""What a session is to the stages that are applied in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.context import Context


@dataclass(slots=True)
class SessionState:
    """The catalog and tables of a session, the language it speaks, its user, and its current database.

    `database` changes with USE; the rest stays.
    """

    context: Context
    dialect: str
    database: str | None
    user: str
