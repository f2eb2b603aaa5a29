"""The scope against which queries over trees are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.compute.iotdb.schema import SeriesTree
from headrace.compute.language import Language
from headrace.model.tables import Database, Table


@dataclass(frozen=True, slots=True)
class TreeScope:
    """Schema, settings and time against which a query is bound.

    Attributes:
        tables: Database and table of each tree by the database's name.
        ttl_ms: Time to live by device path; devices without one are missing.
        timezone: The session's zone, for texts without a zone and for calendar months.
        now: Epoch milliseconds.
    """

    language: Language
    tree: SeriesTree
    tables: Mapping[str, tuple[Database, Table]]
    timezone: str = "UTC"
    now: int = 0
    ttl_ms: Mapping[str, int] = field(default_factory=dict)
