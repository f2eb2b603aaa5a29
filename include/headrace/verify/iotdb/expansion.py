"""The series that the paths of a query stand for: every combination is a column of the result, or part of a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Final

from headrace.model.expressions import Call, Case, Cast, ColumnRef, Expression, Literal, columns_of, transform, walk
from headrace.model.paths import ROOT, PathPattern, split_path
from headrace.model.trees import Device, SeriesRef
from headrace.verify.iotdb.aggregates import AGGREGATES, COUNTS
from headrace.verify.iotdb.sources import TreeSource, matching_series

TIME: Final = "time"
END_TIME: Final = "__endTime"
COUNT_TIME: Final = "count_time"
NOTHING: Final = "no series"
"""What takes the place of a path that matches no series; no path has that name."""

Resolve = Callable[[ColumnRef], Sequence[str]]
"""Returns the names of the columns that a path expands to."""


def is_time(reference: ColumnRef) -> bool:
    """Return whether a name is the instant of a row."""
    return reference.name.lower() in (TIME, "timestamp")


def combinations(node: Expression, resolve: Resolve) -> list[Expression]:
    """Return the expression once for each combination of what its paths stand for, the last path varying fastest."""
    match node:
        case ColumnRef() if is_time(node):
            return [replace(node, name=TIME)]
        case ColumnRef(name=name) if name == END_TIME:
            return [node]
        case ColumnRef():
            return [replace(node, name=name) for name in resolve(node)]
        case Call(function=function) if function == COUNT_TIME:
            return [replace(node, arguments=(ColumnRef(TIME),))]
        case Call(arguments=arguments):
            return [replace(node, arguments=parts) for parts in product(*(combinations(part, resolve) for part in arguments))]
        case Cast(operand=operand):
            return [replace(node, operand=part) for part in combinations(operand, resolve)]
        case Case():
            return _case_combinations(node, resolve)
    return [node]


def _case_combinations(node: Case, resolve: Resolve) -> list[Expression]:
    """Return a CASE once for each combination; its operand is compared in each branch, where it varies independently."""
    operand = node.operand
    whens = [when if operand is None else Call("=", (operand, when)) for when, _ in node.branches]
    parts = [part for when, (_, then) in zip(whens, node.branches, strict=True) for part in (when, then)]
    rest = [] if node.default is None else [node.default]
    return [
        replace(
            node,
            branches=tuple(zip(chosen[: len(parts) : 2], chosen[1 : len(parts) : 2], strict=True)),
            default=chosen[-1] if rest else None,
            operand=None,
        )
        for chosen in product(*(combinations(part, resolve) for part in (*parts, *rest)))
    ]


def _conjunction(parts: Sequence[Expression]) -> Expression | None:
    return reduce(lambda left, right: Call("and", (left, right)), parts) if parts else None


def counts_times(node: Expression) -> bool:
    """Return whether an expression counts rows: `count_time(*)`."""
    return any(isinstance(part, Call) and part.function == COUNT_TIME for part in walk(node))


def column_references(node: Expression) -> list[ColumnRef]:
    """Return the paths of an expression, without the instants of rows and windows."""
    return [part for part in columns_of(node) if not is_time(part) and part.name != END_TIME]


@dataclass(slots=True)
class PathNames:
    """Resolves paths below the prefixes of FROM to full paths."""

    source: TreeSource
    prefixes: tuple[PathPattern, ...]
    series: dict[str, SeriesRef] = field(default_factory=dict)

    def __call__(self, reference: ColumnRef) -> list[str]:
        """Return the full paths of the series that a path matches."""
        return [path for paths in self._by_prefix(reference) for path in paths]

    def or_nothing(self, reference: ColumnRef) -> list[str]:
        """Return the full paths that a path matches, and `NOTHING` for each prefix below which it matches none."""
        return [path for paths in self._by_prefix(reference) for path in paths or [NOTHING]]

    def _by_prefix(self, reference: ColumnRef) -> list[list[str]]:
        """Return the full paths that a path matches below each prefix; in one list if it is itself full."""
        nodes = split_path(reference.name)
        patterns = [PathPattern(nodes)] if nodes[0] == ROOT else [PathPattern(prefix.nodes + nodes) for prefix in self.prefixes]
        matched = [matching_series(self.source.devices, pattern) for pattern in patterns]
        self.series |= {part.path: part for parts in matched for part in parts}
        return [[part.path for part in parts] for parts in matched]

    def all_names(self) -> list[str]:
        return self(ColumnRef("*"))


@dataclass(slots=True)
class MeasurementNames:
    """Resolves names to the measurements of one device."""

    device: Device
    series: dict[str, SeriesRef] = field(default_factory=dict)

    def __call__(self, reference: ColumnRef) -> list[str]:
        pattern = PathPattern((*self.device.nodes, *split_path(reference.name)))
        matched = matching_series([self.device], pattern)
        self.series |= {part.name: part for part in matched}
        return [part.name for part in matched]

    def all_names(self) -> list[str]:
        return self(ColumnRef("*"))


def condition(node: Expression | None, resolvers: Sequence[Resolve]) -> Expression | None:
    """Return a condition on every series that its paths match."""
    return _conjunction(conditions(node, resolvers))


def conditions(node: Expression | None, resolvers: Sequence[Resolve]) -> list[Expression]:
    """Return a condition once for each combination of the series that its paths match."""
    if node is None:
        return []
    return list(dict.fromkeys(_as_null(part) for resolver in resolvers for part in combinations(node, _or_nothing(resolver))))


def having_condition(node: Expression | None, resolve: Resolve) -> Expression | None:
    """Return HAVING on every series that its paths match; what counts the values of a missing one is 0."""
    if node is None:
        return None
    parts = combinations(node, _or_nothing(resolve))
    return _conjunction(list(dict.fromkeys(_as_null(part, nothing_counted=0) for part in parts)))


def _or_nothing(resolve: Resolve) -> Resolve:
    return lambda reference: resolve(reference) or [NOTHING]


def or_any(resolve: Resolve, others: Sequence[Resolve]) -> Resolve:
    """Return a resolver that asks others, in their order, for a path that matches no series."""

    def resolved(reference: ColumnRef) -> Sequence[str]:
        return next((names for names in (resolver(reference) for resolver in (resolve, *others)) if names), [])

    return resolved


def _as_null(node: Expression, nothing_counted: int | None = None) -> Expression:
    """Replace what takes the place of missing series, and aggregates of them, by NULL; counts by `nothing_counted`."""

    def change(part: Expression) -> Expression | None:
        match part:
            case ColumnRef(name=name) if name == NOTHING:
                return Literal(None)
            case Call(function=function, arguments=arguments) if function in AGGREGATES:
                if any(_is_null(_as_null(argument)) for argument in arguments):
                    return Literal(nothing_counted if function in COUNTS else None)
        return None

    return transform(node, change)


def excludes_all(node: Expression | None) -> bool:
    """Return whether a condition holds in no row, since it needs missing series: AND if one side does, OR if both do."""
    match node:
        case Call(function="and" | "&", arguments=arguments):
            return any(map(excludes_all, arguments))
        case Call(function="or" | "|", arguments=arguments):
            return all(map(excludes_all, arguments))
    return _is_null(node)


def _is_null(node: Expression | None) -> bool:
    """Return whether a condition is NULL whatever the rows: AND and OR if both sides are, other operators if one is."""
    match node:
        case Literal(value=value):
            return value is None
        case Call(function="and" | "or" | "&" | "|", arguments=arguments):
            return all(map(_is_null, arguments))
        case Call(function="is null" | "is not null"):
            return False
        case Call(arguments=arguments):
            return any(map(_is_null, arguments))
        case Cast(operand=operand):
            return _is_null(operand)
    return False
