"""The inputs and attributes of a call, and checks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from headrace.udf.types import Type

N = TypeVar("N", int, float)


class ParameterError(ValueError):
    """The inputs or attributes of a call are not valid. The message is shown to the user."""


class Attributes:
    """Attributes of a call or a trigger: texts by key, read as values of a type.

    `get_string` and its siblings return None for a missing attribute, and raise `ParameterError` for one that is not of the type.
    """

    def __init__(self, attributes: Mapping[str, str] | None = None) -> None:
        """Store the attributes."""
        self._attributes = dict(attributes or {})

    def get_attributes(self) -> dict[str, str]:
        """Return all attributes, such as `'k'='3'`."""
        return dict(self._attributes)

    def has_attribute(self, key: str) -> bool:
        """Return whether there is an attribute."""
        return key in self._attributes

    def get_string(self, key: str) -> str | None:
        """Return an attribute as text, or None."""
        return self._attributes.get(key)

    def get_boolean(self, key: str) -> bool | None:
        """Return an attribute as a Boolean: True for `true` in any case, else False; None if it is missing."""
        value = self._attributes.get(key)
        return None if value is None else value.lower() == "true"

    def get_int(self, key: str) -> int | None:
        """Return an attribute as an integer, or None."""
        return self._number(key, int)

    def get_long(self, key: str) -> int | None:
        """Return an attribute as an integer, or None."""
        return self._number(key, int)

    def get_float(self, key: str) -> float | None:
        """Return an attribute as a number, or None."""
        return self._number(key, float)

    def get_double(self, key: str) -> float | None:
        """Return an attribute as a number, or None."""
        return self._number(key, float)

    def get_string_or_default(self, key: str, default: str) -> str:
        """Return an attribute as text."""
        return self._attributes.get(key, default)

    def get_boolean_or_default(self, key: str, default: bool) -> bool:
        """Return an attribute as a Boolean."""
        value = self.get_boolean(key)
        return default if value is None else value

    def get_int_or_default(self, key: str, default: int) -> int:
        """Return an attribute as an integer."""
        value = self.get_int(key)
        return default if value is None else value

    def get_long_or_default(self, key: str, default: int) -> int:
        """Return an attribute as an integer."""
        return self.get_int_or_default(key, default)

    def get_float_or_default(self, key: str, default: float) -> float:
        """Return an attribute as a number."""
        return self.get_double_or_default(key, default)

    def get_double_or_default(self, key: str, default: float) -> float:
        """Return an attribute as a number."""
        value = self.get_double(key)
        return default if value is None else value

    def _number(self, key: str, convert: Callable[[str], N]) -> N | None:
        value = self._attributes.get(key)
        try:
            return None if value is None else convert(value)
        except ValueError:
            raise ParameterError(f'For input string: "{value}"') from None


class Parameters(Attributes):
    """The inputs and attributes of a call."""

    def __init__(
        self,
        data_types: Sequence[Type],
        attributes: Mapping[str, str] | None = None,
        child_expressions: Sequence[str] = (),
        timestamp_precision: str = "ms",
    ) -> None:
        """Store the attributes, and `data_types` and `child_expressions` of the inputs, in order."""
        super().__init__(attributes)
        self._data_types = tuple(data_types)
        self._child_expressions = tuple(child_expressions)
        self._system_attributes = {"timestampPrecision": timestamp_precision}

    def get_child_expressions(self) -> list[str]:
        """Return the inputs as SQL, such as the paths of series. With ALIGN BY DEVICE these are measurements."""
        return list(self._child_expressions)

    def get_child_expressions_size(self) -> int:
        """Return the number of inputs."""
        return len(self._data_types)

    def get_data_types(self) -> list[Type]:
        """Return the types of the inputs."""
        return list(self._data_types)

    def get_data_type(self, index: int) -> Type:
        """Return the type of one input."""
        return self._data_types[index]

    def get_system_attributes(self) -> dict[str, str]:
        """Return what the system provides: `timestampPrecision`, the unit of times: ms, us or ns."""
        return dict(self._system_attributes)

    def with_system_attribute(self, key: str, value: str) -> Parameters:
        """Return the same parameters with a further system attribute."""
        copied = copy(self)
        copied._system_attributes = {**self._system_attributes, key: value}
        return copied

    def get_system_string(self, key: str) -> str | None:
        """Return a system attribute, or None."""
        return self._system_attributes.get(key)

    @property
    def ticks_per_second(self) -> int:
        """How many units of time a second has."""
        return {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[self._system_attributes["timestampPrecision"]]


class Validator:
    """Checks that functions make of their parameters in `validate`. Each raises `ParameterError`."""

    def __init__(self, parameters: Parameters) -> None:
        """Check these parameters."""
        self._parameters = parameters

    def get_parameters(self) -> Parameters:
        """Return the parameters of the call."""
        return self._parameters

    def validate_required_attribute(self, key: str) -> Validator:
        """Require an attribute."""
        if not self._parameters.has_attribute(key):
            raise ParameterError(f'attribute "{key}" is required but was not provided.')
        return self

    def validate_input_series_number(self, expected: int, maximum: int | None = None) -> Validator:
        """Require a number of inputs: exactly `expected`, or from `expected` to `maximum`."""
        actual = self._parameters.get_child_expressions_size()
        if not expected <= actual <= (expected if maximum is None else maximum):
            wanted = str(expected) if maximum is None else f"[{expected}, {maximum}]"
            raise ParameterError(f"the number of the input series is not valid. expected: {wanted}. actual: {actual}.")
        return self

    def validate_input_series_data_type(self, index: int, *expected: Type) -> Validator:
        """Require one input to have one of some types."""
        size = self._parameters.get_child_expressions_size()
        if not 0 <= index < size:
            message = f"the index ({index}) of the input series is not valid. valid index range: [0, {size})."
            raise ParameterError(message)
        actual = self._parameters.get_data_type(index)
        if actual not in expected:
            wanted = expected[0] if len(expected) == 1 else f"[{', '.join(expected)}]"
            message = f"the data type of the input series (index: {index}) is not valid. expected: {wanted}. actual: {actual}."
            raise ParameterError(message)
        return self

    def validate(self, rule: Callable[..., bool], message: str, *arguments: Any) -> Validator:
        """Require `rule(*arguments)` to be true; `message` is that of the error."""
        if not rule(*arguments):
            raise ParameterError(message)
        return self
