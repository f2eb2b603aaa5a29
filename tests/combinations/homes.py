"""What homes have in common in which many combinations are played side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import headrace
from headrace.errors import Error


class Playable(Protocol):
    """A combination, with a name that no other one of the home has."""

    @property
    def name(self) -> str: ...

    @property
    def combination(self) -> Mapping[str, Any]: ...

    def statement(self) -> str: ...


P = TypeVar("P", bound=Playable)


@dataclass
class PlayedHome(Generic[P]):
    """A home with a connection. A play with a problem is not continued."""

    folder: Path
    plays: list[P]
    connection: headrace.Connection = field(init=False)
    problems: dict[str, str] = field(default_factory=dict)

    def each(self, statements: Callable[[P], Iterable[str]]) -> None:
        """Execute statements of every play that had no problem yet."""
        for play in self.plays:
            if play.name in self.problems:
                continue
            try:
                self.enter(play)
                for sql in statements(play):
                    self.connection.execute(sql)
            except Error as error:
                self.note(play, f"{error}")

    def enter(self, play: P) -> None:
        """Prepare the connection for a play."""

    def note(self, play: P, problem: str) -> None:
        self.problems[play.name] = f"{dict(play.combination)}\n  {play.statement()}\n  {problem}"
