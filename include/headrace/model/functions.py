"""Functions that users register."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegisteredFunction:
    """A function of the IoTDB language under a name of the user's; `class_name` is what it does."""

    name: str
    class_name: str
