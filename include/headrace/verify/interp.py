"""INTERP in DuckDB: values at points between rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.model.expressions import Call, walk
from headrace.model.queries import Item
from headrace.verify.values import unknown

if TYPE_CHECKING:
    from headrace.verify.places import Key
    from headrace.verify.query import Answer, Select


def uses_interp(items: Sequence[Item]) -> bool:
    return any(isinstance(part, Call) and part.function == "interp" for item in items for part in walk(item.expression))


def interpolated(select: Select, items: Sequence[Item], keys: list[Key]) -> Answer:
    raise unknown("INTERP")
