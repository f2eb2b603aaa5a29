"""Fields of the settings: how values are read and checked. Importing a library for this takes longer than a short command."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

PREFIX: Final = "HEADRACE_"
"""The beginning of the names of environment variables."""
TRUTHS: Final = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is shown nowhere by accident."""

    text: str = ""

    def reveal(self) -> str:
        """Return the text itself."""
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return "**********" if self.text else ""

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"


@dataclass(frozen=True, slots=True)
class SettingField:
    """A setting; its values have the type of the default.

    Attributes:
        ge: The least number.
        le: The greatest number.
        pattern: A regular expression of the whole text.
        choices: All texts that are allowed, if not any.
        parse: What reads the text where it is used, by which it is checked.
    """

    default: Any
    description: str
    ge: int | None = None
    le: int | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] | None = None

    def read(self, value: object) -> Any:
        """Return a value of the setting's type, given such a value or a text.

        Raises:
            ValueError: It is no value of the setting.
        """
        converted = READERS.get(type(self.default), read_path)(value)
        if self.ge is not None and converted < self.ge:
            raise ValueError(f"must be at least {self.ge}")
        if self.le is not None and converted > self.le:
            raise ValueError(f"must be at most {self.le}")
        if self.pattern is not None and not re.fullmatch(self.pattern, converted):
            raise ValueError(f"must match {self.pattern}")
        if self.choices and converted not in self.choices:
            raise ValueError(f"must be {' or '.join(self.choices)}")
        if self.parse is not None:
            self.parse(converted)
        return converted


class FieldValues:
    """Values of the settings that a class declares, which nothing changes."""

    fields: ClassVar[Mapping[str, SettingField]]
    assigned: frozenset[str]
    """The settings that were set."""
    _key: tuple[Any, ...]

    def __init_subclass__(cls) -> None:
        cls.fields = {name: field for name, field in vars(cls).items() if isinstance(field, SettingField)}

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Make settings of values that were read and checked, and of the defaults of all others."""
        vars(self).update({name: field.default for name, field in self.fields.items()}, **values)
        vars(self).update(assigned=frozenset(values), _key=tuple(getattr(self, name) for name in self.fields))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings do not change: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """Return settings with some values changed, which are not checked."""
        return type(self)({name: getattr(self, name) for name in self.assigned} | dict(changes))

    def environment(self) -> dict[str, str]:
        """Return the settings that were set as environment variables for child processes, secrets in clear."""
        values = {name: getattr(self, name) for name in sorted(self.assigned)}
        plain = {name: value.reveal() if isinstance(value, Secret) else value for name, value in values.items()}
        return {f"{PREFIX}{name.upper()}": str(value) for name, value in plain.items()}

    def sources(self) -> dict[str, str]:
        """Return the source of each setting: `default`, or the name of the environment variable."""
        return {name: f"{PREFIX}{name.upper()}" if name in self.assigned else "default" for name in self.fields}


def read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def read_number(value: object) -> int:
    try:
        return int(value) if isinstance(value, int | str) and not isinstance(value, bool) else int("")
    except ValueError:
        raise ValueError("must be a whole number") from None


def read_truth(value: object) -> bool:
    truth = TRUTHS.get(str(value).lower())
    if truth is None:
        raise ValueError("must be true or false")
    return truth


def read_path(value: object) -> Path:
    if not isinstance(value, str | Path):
        raise ValueError("must be a path")
    return Path(value)


def read_secret(value: object) -> Secret:
    return value if isinstance(value, Secret) else Secret(read_text(value))


READERS: Final[Mapping[type, Callable[[object], Any]]] = {str: read_text, int: read_number, bool: read_truth, Secret: read_secret}
"""What turns a value into one of a type. The class of a path depends on the platform."""


def environment_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of settings in an environment, by the names of the settings. The case of variables does not matter."""
    upper = ((name.upper(), text) for name, text in environment.items())
    return {name.removeprefix(PREFIX).lower(): text for name, text in upper if name.startswith(PREFIX)}


def setting(default: Any, description: str, **constraints: Any) -> Any:
    """Declare a setting; its type is that of the annotation."""
    return SettingField(default, description, **constraints)


positive: Final = functools.partial(setting, ge=1)
non_negative: Final = functools.partial(setting, ge=0)


def find_project() -> Path:
    """Return the checkout that this package belongs to, or the folder that the installed package has in its place."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "project"
    return installed if installed.exists() else package.parents[1]
