"""The attributes of a stage of a pipe: how keys are looked up, and values read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from headrace.errors import Error, ProgrammingError
from headrace.model.pipes import without_prefix
from headrace.model.tree_status import TreeStatus

__all__ = ["PipeAttributes", "pipe_error", "timeout_seconds", "without_prefix"]

N = TypeVar("N", int, float)


def pipe_error(message: str, *, hint: str = "") -> Error:
    """Return the error of a statement about pipes."""
    return ProgrammingError(message, hint=hint).with_status(TreeStatus.PIPE_ERROR)


class PipeAttributes(Mapping[str, str]):
    """Attributes by key. A key is found as it was typed, or as it is without one of the prefixes such as `sink.`.

    So `sink.ip`, `connector.ip` and `ip` are the same key. Iterating gives the keys as they were typed, in order of the keys.
    """

    def __init__(self, attributes: Mapping[str, str]) -> None:
        """Store attributes as typed."""
        self._typed = dict(sorted(attributes.items()))
        self._reduced = {without_prefix(key): value for key, value in self._typed.items()}

    def __getitem__(self, key: str) -> str:
        return self._typed[key] if key in self._typed else self._reduced[without_prefix(key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._typed)

    def __len__(self) -> int:
        return len(self._typed)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (key in self._typed or without_prefix(key) in self._reduced)

    def first(self, *keys: str) -> str | None:
        """Return the value of the first of some keys that there is; None if there is none."""
        return next((self[key] for key in keys if key in self), None)

    def typed_key(self, *keys: str) -> str:
        """Return the first of some keys that there is, as it was typed; the first one if there is none."""
        for key in keys:
            for typed in self._typed:
                if typed == key or without_prefix(typed) == without_prefix(key):
                    return typed
        return keys[0]

    def text(self, *keys: str, default: str = "") -> str:
        """Return the value of the first of some keys that there is, else the default."""
        value = self.first(*keys)
        return default if value is None else value

    def boolean(self, *keys: str, default: bool) -> bool:
        """Return a value that is exactly `true` or `false`."""
        return self.choice(*keys, options=("true", "false"), default=str(default).lower()) == "true"

    def choice(self, *keys: str, options: Sequence[str], default: str) -> str:
        """Return a value that has to be one of some options.

        Raises:
            ProgrammingError: It is another one.
        """
        value = self.first(*keys)
        if value is None:
            return default
        if value not in options:
            key = self.typed_key(*keys)
            raise pipe_error(f"Invalid value {value} of {key}. The value should be one of [{', '.join(options)}]")
        return value

    def integer(self, *keys: str, default: int) -> int:
        """Return a whole number; raise `ProgrammingError` for anything else."""
        return self._number(int, keys, default)

    def number(self, *keys: str, default: float) -> float:
        """Return a number; raise `ProgrammingError` for anything else."""
        return self._number(float, keys, default)

    def _number(self, convert: Callable[[str], N], keys: Sequence[str], default: N) -> N:
        value = self.first(*keys)
        try:
            return default if value is None else convert(value)
        except ValueError:
            key = self.typed_key(*keys)
            raise pipe_error(f'For input string: "{value}"', hint=f"{key} is a number") from None


def timeout_seconds(attributes: PipeAttributes, default_ms: int = 60_000) -> float:
    """Return the attribute `timeout-seconds` of a sink; raise `ProgrammingError` if it is not above 0."""
    if "timeout-seconds" not in attributes:
        return default_ms / 1000
    seconds = attributes.integer("timeout-seconds", default=0)
    if seconds <= 0:
        raise pipe_error(f"timeout-seconds must be > 0, but got {seconds}")
    return seconds
