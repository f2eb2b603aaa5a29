"""What the windows of a plan refer to: instants, expressions and FILL."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute.nodes import Node
from headrace.model.instants import PresentInstant
from headrace.model.queries import FillMode
from headrace.model.types import DataType


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of instants, inclusive: `ticks`, added to what follows from the present if `present` is set."""

    ticks: int
    present: PresentInstant | None = None

    @property
    def relative(self) -> bool:
        """Whether it is known only when the plan runs."""
        return self.present is not None

    def at(self, now: int) -> int:
        """Return the bound in ticks; `now` is the present in ticks."""
        return self.ticks if self.present is None else self.ticks + self.present.at(now)


@dataclass(frozen=True, slots=True)
class Argument:
    """An expression over source columns that is the argument of an aggregate or window."""

    column: str
    node: Node
    type: DataType


@dataclass(frozen=True, slots=True)
class FillPlan:
    """`FILL`.

    Attributes:
        values: For mode VALUE, one constant per filled output, hidden outputs last.
        keeps_nulls: Whether existing windows keep their NULLs, and the windows next to them take these over, as in streams.
        between: Whether only windows between two existing ones are added: the FILL of a stream that does not follow the clock.
    """

    mode: FillMode
    values: tuple[Node, ...] = ()
    keeps_nulls: bool = False
    between: bool = False
