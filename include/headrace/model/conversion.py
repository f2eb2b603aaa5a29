"""Conversion between frozen dataclasses of the model and rows of the catalog or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

SPANS: Final[dict[str, Any]] = {"__all__": {"span"}}
POSITIONS: Final[dict[str, Any]] = {"columns": SPANS, "tags": SPANS, "schema": {"columns": SPANS, "tags": SPANS}, "span": True}
"""Positions in the text of a statement, which are not stored."""


def build_adapter(type_: Any) -> TypeAdapter[Any]:
    """Return the converter of a type. What this imports is needed only where there are rows."""
    from pydantic import TypeAdapter

    return TypeAdapter(type_)


adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(build_adapter)
"""Returns the converter of a type, built on first use."""


def from_row(type_: type[T], row: Mapping[Any, Any]) -> T:
    """Build a value from the columns of a row that are its fields."""
    return from_json(type_, dict(row))


def to_row(value: object, *exclude: str) -> dict[str, Any]:
    """Return the fields of a value by name, nested ones as by `to_json`."""
    excluded = POSITIONS | dict.fromkeys(exclude, True)
    row: dict[str, Any] = adapter(type(value)).dump_python(value, mode="json", exclude=excluded)
    row |= adapter(type(value)).dump_python(value, mode="json", exclude=excluded, exclude_defaults=True)
    return row


def from_json(type_: type[T], value: object) -> T:
    """Build a value from what `to_json` returned."""
    built: T = adapter(type_).validate_python(value)
    return built


def to_json(value: object) -> Any:
    return adapter(type(value)).dump_python(value, mode="json", exclude=POSITIONS, exclude_defaults=True)
