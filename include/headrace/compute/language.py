"""What `bind` needs to know about a language: functions, operators, pseudo-columns, windows, rules for NULL, names of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.aggregates import AggregateFunction, StreamUse
from headrace.compute.functions.arrow import ArrowFunction, SeriesArrowFunction
from headrace.compute.functions.scalars import ScalarFunction
from headrace.compute.functions.series import SeriesFunction
from headrace.compute.nodes import Node
from headrace.compute.terms import Term
from headrace.compute.windows.kind import WindowPlan
from headrace.errors import ProgrammingError
from headrace.model.queries import SelectItem
from headrace.model.time import Precision
from headrace.model.types import DataType

if TYPE_CHECKING:
    from headrace.compute.binding.binder import Binder
    from headrace.compute.binding.environment import Environment

Function = ScalarFunction | AggregateFunction | SeriesFunction | ArrowFunction | SeriesArrowFunction
F = TypeVar("F", ScalarFunction, AggregateFunction, SeriesFunction, ArrowFunction, SeriesArrowFunction)

WindowRule = Callable[[Any, "Binder", "Environment"], WindowPlan]
"""Checks a window clause over a source and returns its plan."""

LANGUAGES: Final = {"iotdb": ("headrace.compute.iotdb", "IOTDB"), "tdengine": ("headrace.compute.tdengine", "TDENGINE")}
"""Module and object of each language by the name of its dialect; imported on first use."""


@cache
def language(dialect: str) -> Language:
    """Return the language of a dialect."""
    if dialect not in LANGUAGES:
        raise ProgrammingError(f"unknown dialect {dialect!r}", hint=f"use {' or '.join(sorted(LANGUAGES))}")
    module, name = LANGUAGES[dialect]
    loaded: Language = getattr(import_module(module), name)
    return loaded


@dataclass(frozen=True, slots=True)
class PseudoColumns:
    """Names of columns that no table declares. A name that the language lacks is empty."""

    row_time: tuple[str, ...] = ()
    series: str = ""
    window_start: str = ""
    window_end: str = ""
    window_duration: str = ""
    point_time: str = ""
    point_filled: str = ""
    query_start: str = ""
    query_end: str = ""
    query_duration: str = ""

    @property
    def window_names(self) -> tuple[str, ...]:
        """The pseudo-columns that require a window."""
        return self.window_start, self.window_end, self.window_duration

    @property
    def point_names(self) -> tuple[str, ...]:
        """The pseudo-columns that require an interpolation."""
        return self.point_time, self.point_filled


@dataclass(frozen=True, slots=True)
class Operators:
    """Operators and conversions, by the names that the model's expressions use.

    Attributes:
        comparisons: Names of binary operators that convert both operands to instants if one of them is.
        instant: Converts a term to an instant in a time zone and precision.
        truth: Converts a term to a condition.
        cast: Converts a term to a declared type.
        common_type: Returns the type that holds the values of several types, None if all are bare NULLs.
        convert: Converts a term to a type that `common_type` has returned.
        choice: Converts a choice of IN, the second term, for the comparison with the first.
        assign: Converts a term for a column of a type and name: as `cast`, but what the column cannot hold is an error.
    """

    unary: Mapping[str, Callable[[Term], Term]]
    binary: Mapping[str, Callable[[Term, Term], Term]]
    comparisons: frozenset[str]
    instant: Callable[[Term, str, Precision], Term]
    truth: Callable[[Term], Node]
    cast: Callable[[Term, DataType, ExpressionContext], Term]
    common_type: Callable[[Sequence[DataType | None]], DataType | None]
    convert: Callable[[Term, DataType], Node]
    choice: Callable[[Term, Term], Term] = lambda _, choice: choice
    assign: Callable[[Term, DataType, str, ExpressionContext], Term] | None = None


@dataclass(frozen=True, slots=True)
class NullRules:
    """What NULL means where the SQL standard leaves it open, or the language departs from it.

    Attributes:
        shown_false: Operators whose NULL is false as a value of the select list. As a condition it stays NULL.
        sorts_lowest: Whether NULL comes first in ascending order.
        bounds_between: Whether BETWEEN is NULL if a bound is, although the other bound excludes the value.
    """

    shown_false: frozenset[str] = frozenset()
    sorts_lowest: bool = True
    bounds_between: bool = False


@dataclass(frozen=True, slots=True)
class Language:
    """One language. `with_functions` derives one with more functions, such as user-defined ones.

    Attributes:
        functions: Every function by its name in lower case. The class of the entry says how it is evaluated.
        present: Calls without arguments whose value is fixed when a plan runs, such as `now`.
        windows: Binds each window clause of the model that the language has.
        star_functions: Functions that apply to each column separately if their argument is `*`.
        counting_aggregates: Aggregates that give a row even if there are no rows.
        interpolation: The function that interpolates, empty if there is none.
        orders_zeros: Whether -0.0 comes before 0.0 in ORDER BY.
    """

    name: str
    functions: Mapping[str, Function]
    operators: Operators
    pseudo_columns: PseudoColumns
    present: Mapping[str, Callable[[ExpressionContext], Term]]
    windows: Mapping[type, WindowRule]
    nulls: NullRules
    column_name: Callable[[SelectItem], str] = attrgetter("name")
    star_functions: frozenset[str] = frozenset()
    counting_aggregates: frozenset[str] = frozenset()
    interpolation: str = ""
    orders_zeros: bool = False

    def function(self, name: str, kind: type[F]) -> F | None:
        """Return the function with a name if it is one of a class, else None."""
        function = self.functions.get(name)
        return function if isinstance(function, kind) else None

    def aggregate(self, name: str) -> AggregateFunction | ArrowFunction | None:
        """Return the function over the rows of a group with a name, or None."""
        function = self.functions.get(name)
        return function if isinstance(function, AggregateFunction | ArrowFunction) else None

    def stream_use(self, name: str) -> StreamUse:
        """Return which streams may call a function; of a name that is none, any."""
        function = self.functions.get(name)
        return StreamUse.ANY if function is None else function.streams

    def series_name(self, series_key: str) -> str:
        """Return what queries call a table's series key."""
        return self.pseudo_columns.series or series_key

    def is_selection(self, name: str) -> bool:
        function = self.functions.get(name)
        return isinstance(function, AggregateFunction) and function.selects

    def functions_of_type(self, kind: type[F]) -> Iterator[F]:
        """Yield the functions of one class, in table order."""
        return (function for function in self.functions.values() if isinstance(function, kind))

    def with_functions(self, *functions: Function) -> Language:
        """Return the language with more functions. Raises `ProgrammingError` if a name is taken."""
        for function in functions:
            if function.name in self.functions:
                raise ProgrammingError(f"function {function.name} already exists", hint="choose another name")
        return replace(self, functions={**self.functions, **{function.name: function for function in functions}})


def function_table(*functions: Function) -> dict[str, Function]:
    """Return functions by name. Names must be unique."""
    table = {function.name: function for function in functions}
    assert len(table) == len(functions)
    return table
