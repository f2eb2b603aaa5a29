"""The parameters of a plugin, and checks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.udf.parameters import Attributes, ParameterError

PREFIXES: Final = ("extractor.", "source.", "processor.", "connector.", "sink.")


def without_prefix(key: str) -> str:
    """Return a key without one leading prefix, which is recognized in any case."""
    lower = key.lower()
    return next((key[len(prefix) :] for prefix in PREFIXES if lower.startswith(prefix)), key)


class PipeParameters(Attributes):
    """What the statement that created a pipe says about a stage: texts by key.

    A key is found as it was typed, or without one of the prefixes `extractor.`, `source.`, `processor.`, `connector.` and `sink.`:
    `sink.url`, `connector.url` and `url` are the same key. `get_attributes` returns all with the keys as they were typed.
    """

    def __init__(self, attributes: Mapping[str, str] | None = None) -> None:
        """Store attributes as typed."""
        self._typed = dict(sorted((attributes or {}).items()))
        super().__init__()
        self._attributes = _Reduced(self._typed)

    def get_attributes(self) -> dict[str, str]:
        """Return all parameters, with their keys as typed."""
        return dict(self._typed)

    def has_any_attributes(self, *keys: str) -> bool:
        """Return whether there is a parameter with one of some keys."""
        return any(map(self.has_attribute, keys))

    def get_string_by_keys(self, *keys: str) -> str | None:
        """Return the first of some parameters that there is, as text, or None."""
        return next((self.get_string(key) for key in keys if self.has_attribute(key)), None)


class _Reduced(dict[str, str]):
    """Attributes by their keys as typed, and by those without prefix."""

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__({**{without_prefix(key): value for key, value in typed.items()}, **typed})

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, with or without its prefix."""
        return super().get(key, super().get(without_prefix(key), default))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and super().__contains__(without_prefix(key)))


class ParameterValidator:
    """Checks that plugins make of their parameters in `validate`. Each raises `ParameterError`."""

    def __init__(self, parameters: PipeParameters) -> None:
        """Check these parameters."""
        self._parameters = parameters

    def get_parameters(self) -> PipeParameters:
        """Return the parameters."""
        return self._parameters

    def validate_required_attribute(self, key: str) -> ParameterValidator:
        """Require a parameter."""
        if not self._parameters.has_attribute(key):
            raise ParameterError(f"attribute {key} is required")
        return self

    def validate_attribute_value_range(self, key: str, is_optional: bool, *options: str) -> ParameterValidator:
        """Require a parameter to have one of some values. It may be missing if it is optional."""
        if is_optional and not self._parameters.has_attribute(key):
            return self
        value = self.validate_required_attribute(key)._parameters.get_string(key)
        if value not in options:
            raise ParameterError(f"Invalid value {value} of {key}. The value should be one of [{', '.join(options)}]")
        return self

    def validate(self, rule: Callable[..., bool], message: str, *arguments: Any) -> ParameterValidator:
        """Require `rule(*arguments)` to be true; `message` is that of the error."""
        if not rule(*arguments):
            raise ParameterError(message)
        return self
