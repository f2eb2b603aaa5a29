"""Attributes of calls in TDengine's language, which are constants after the columns: values, or texts with options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from headrace.errors import TypeMismatchError
from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision

OPTION: Final = re.compile(r"([A-Za-z]\w*)\s*=\s*(.*)", re.DOTALL)
NEXT_OPTION: Final = re.compile(r",(?=\s*[A-Za-z]\w*\s*=)")


def options_of(function: str, names: Sequence[str], constants: Sequence[Scalar | Duration], precision: Precision) -> dict[str, str]:
    """Return the attributes of a call by name: constants in the order of `names`, and then texts such as `rank=0.9,error=0.01`.

    Raises:
        TypeMismatchError: An attribute does not exist, is written twice, or is NULL, or a duration has no fixed length.
    """
    values: dict[str, str] = {}
    for name, value in named_constants(function, names, constants):
        if name in values:
            raise TypeMismatchError(f"{name} of {function} is written twice", hint="leave one of them out")
        values[name] = attribute_text(function, value, precision)
    return values


def named_constants(
    function: str, names: Sequence[str], constants: Sequence[Scalar | Duration]
) -> Iterator[tuple[str, Scalar | Duration]]:
    spelled = {name.lower(): name for name in names}
    for position, constant in enumerate(constants):
        if (options := written_in(constant)) is None:
            if position >= len(names):
                expected = f"{len(names)} parameter{'' if len(names) == 1 else 's'}"
                hint = f"its parameters are: {', '.join(names)}" if names else ""
                raise TypeMismatchError(f"{function} takes {expected}, not {len(constants)}", hint=hint)
            yield names[position], constant
            continue
        for option, value in options:
            if option.lower() not in spelled:
                hint = f"its options are: {', '.join(names)}" if names else "it has none"
                raise TypeMismatchError(f"{function} has no option {option}", hint=hint)
            yield spelled[option.lower()], value


def written_options(function: str, constants: Sequence[Scalar | Duration]) -> dict[str, str]:
    """Return the attributes of a call whose names only the function has: texts such as `rank=0.9,error=0.01`.

    Raises:
        TypeMismatchError: A constant is no such text.
    """
    values: dict[str, str] = {}
    for constant in constants:
        options = written_in(constant)
        if options is None:
            raise TypeMismatchError(f"{function} takes columns, then options", hint="write options as texts: 'name=value'")
        values |= dict(options)
    return values


def written_in(constant: Scalar | Duration) -> list[tuple[str, str]] | None:
    """Return the names and values of the options in a text such as `rank=0.9,error=0.01`; None if it is no such text."""
    options = [OPTION.fullmatch(part.strip()) for part in NEXT_OPTION.split(constant)] if isinstance(constant, str) else [None]
    pairs = [(option[1], option[2]) for option in options if option is not None]
    return pairs if len(pairs) == len(options) else None


def attribute_text(function: str, value: Scalar | Duration, precision: Precision) -> str:
    """Return a constant as attributes are written."""
    if value is None:
        raise TypeMismatchError(f"the parameters of {function} must not be NULL", hint="leave it out for the default")
    if not isinstance(value, Duration):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if value.is_calendar:
        raise TypeMismatchError(f"{value} has no fixed length", hint="use weeks, days or shorter units")
    return f"{value.ticks(precision)}{precision.value}"
