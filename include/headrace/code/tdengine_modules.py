"""Modules of TDengine's Python functions: whether they define what their kind of function needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headrace.errors import InvalidCodeError
from headrace.model.functions import FunctionKind

NEEDED: Final = {
    FunctionKind.SCALAR: ("init", "destroy", "process"),
    FunctionKind.UDAF: ("init", "destroy", "start", "reduce", "finish"),
}
"""The functions that a module has to define. It may define those of both kinds."""
ALL_FUNCTIONS: Final = tuple(dict.fromkeys(name for names in NEEDED.values() for name in names))


def check_module(module: str, kind: FunctionKind, defined: Collection[str]) -> None:
    """Raise `InvalidCodeError` unless a module defines the functions that a kind of function needs."""
    missing = [function for function in NEEDED[kind] if function not in defined]
    if missing:
        raise InvalidCodeError(f"module {module} does not define {', '.join(missing)}", hint=_hint(kind, defined))


def _hint(kind: FunctionKind, defined: Collection[str]) -> str:
    other = FunctionKind.SCALAR if kind is FunctionKind.UDAF else FunctionKind.UDAF
    if set(NEEDED[other]).issubset(defined):
        return "write CREATE AGGREGATE FUNCTION" if other is FunctionKind.UDAF else "leave AGGREGATE out"
    return f"a module of this kind of function defines {', '.join(NEEDED[kind])}"
