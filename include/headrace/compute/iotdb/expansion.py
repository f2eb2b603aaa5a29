"""Expansion of paths to series: one result column per combination of the series that an expression's paths match.

In conditions, a path that matches no series is NULL; the resolvers given to their functions return that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import prod
from typing import Final

from headrace.compute.iotdb.aggregates import COUNTING, normalize_count_if
from headrace.compute.iotdb.schema import SeriesTree
from headrace.compute.iotdb.types import type_error
from headrace.compute.iotdb.windows import years_in_days
from headrace.compute.language import Language
from headrace.errors import LimitError, ProgrammingError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal, conjuncts, transform, walk
from headrace.model.paths import PathPattern, join_path, split_path
from headrace.model.trees import Device, SeriesRef
from headrace.sql.iotdb.names import result_name

TIME: Final = "time"
DEVICE: Final = "device"
END_TIME: Final = "__endTime"
COUNT_TIME: Final = "count_time"
MAX_SERIES: Final = 1_000_000
"""Series that one path of a query may match; a million take about half a gigabyte."""
MAX_COLUMNS: Final = 100_000
"""Columns of a result."""
PSEUDO_COLUMNS: Final = frozenset((TIME, "timestamp", END_TIME))

Alternatives = Callable[[ColumnRef], Sequence[Expression]]
"""Resolves a path to the columns it matches."""


def expand(node: Expression, alternatives: Alternatives) -> list[Expression]:
    """Expand an expression to every combination of the columns its paths match, the last path varying fastest."""
    match node:
        case ColumnRef(name=name) if name.lower() in PSEUDO_COLUMNS or name == END_TIME:
            return [replace(node, name=TIME if name.lower() == "timestamp" else name if name == END_TIME else name.lower())]
        case ColumnRef():
            return list(alternatives(node))
        case DurationLiteral():
            return [years_in_days(node)]
        case Call(function=function) if function == COUNT_TIME:
            return [replace(node, arguments=(ColumnRef(TIME),))]
        case Call(arguments=arguments):
            return [replace(node, arguments=parts) for parts in combinations(arguments, alternatives)]
        case Cast(operand=operand):
            return [replace(node, operand=part) for part in expand(operand, alternatives)]
        case Case():
            return expand_case(node, alternatives)
        case _:
            return [node]


def combinations(nodes: Iterable[Expression], alternatives: Alternatives) -> Iterable[tuple[Expression, ...]]:
    """Return every combination of the expansions of some expressions.

    Raises:
        LimitError: There are more than `MAX_COLUMNS` combinations of several of them.
    """
    expansions = [expand(node, alternatives) for node in nodes]
    if sum(len(parts) > 1 for parts in expansions) > 1 and prod(map(len, expansions)) > MAX_COLUMNS:
        raise LimitError(
            f"the paths of an expression match more than {MAX_COLUMNS} combinations of series", hint="name fewer of them"
        )
    return product(*expansions)


def expand_case(node: Case, alternatives: Alternatives) -> list[Expression]:
    """Expand all parts of a CASE. Its operand is compared in each branch, where its paths vary independently."""
    branches = node.branches
    if node.operand is not None:
        branches = tuple((Call("=", (node.operand, value), span=value.span), result) for value, result in branches)
    tail = [] if node.default is None else [node.default]
    count = 2 * len(branches)
    return [
        replace(
            node,
            branches=tuple(zip(parts[0:count:2], parts[1:count:2], strict=True)),
            default=parts[count] if tail else None,
            operand=None,
        )
        for parts in combinations((*(part for branch in branches for part in branch), *tail), alternatives)
    ]


@dataclass(slots=True)
class SeriesNames:
    """Resolves the paths of an ALIGN BY TIME query below its FROM prefixes, and records the series in `series`."""

    tree: SeriesTree
    prefixes: tuple[PathPattern, ...]
    series: dict[str, SeriesRef] = field(default_factory=dict)

    def all_series(self) -> list[str]:
        return [reference.name for reference in self(ColumnRef("*"))]

    def expansions(self, node: Expression) -> list[list[Expression]]:
        """Return the expansions of an expression, for each choice of FROM prefixes for its paths."""
        return [expand(full, self) for full in expand(node, self.with_prefixes)]

    def with_prefixes(self, reference: ColumnRef) -> list[ColumnRef]:
        """Return a path below each FROM prefix; only itself if it is full."""
        nodes = split_path(reference.name)
        prefixes: list[tuple[str, ...]] = [()] if nodes[0] == "root" else [prefix.nodes for prefix in self.prefixes]
        return [replace(reference, name=join_path((*prefix, *nodes))) for prefix in prefixes]

    def __call__(self, reference: ColumnRef) -> list[ColumnRef]:
        """Return the full paths that a path matches, in IoTDB's order."""
        return [path for paths in self.by_prefix(reference) for path in paths]

    def or_null(self, reference: ColumnRef) -> list[Expression]:
        """Return the full paths that a path matches, and NULL for each FROM prefix below which it matches none."""
        null: list[Expression] = [Literal(None, span=reference.span)]
        return [path for paths in self.by_prefix(reference) for path in (paths or null)]

    def by_prefix(self, reference: ColumnRef) -> list[list[ColumnRef]]:
        """Return the full paths that a path matches, by FROM prefix; in one list if it is itself full."""
        suffix = PathPattern(split_path(reference.name), reference.span)
        patterns = [suffix] if suffix.nodes[0] == "root" else [prefix.concat(suffix) for prefix in self.prefixes]
        matching = ((at, ref) for at, pattern in enumerate(patterns) for ref in self.tree.iterate(pattern))
        refs = list(islice(matching, MAX_SERIES + 1))
        if len(refs) > MAX_SERIES:
            raise LimitError(
                f"{reference.name} matches more than {MAX_SERIES} series", hint="name fewer of them", span=reference.span
            )
        matched: list[list[ColumnRef]] = [[] for _ in patterns]
        for at, ref in refs:
            path = ref.path
            self.series[path] = ref
            matched[at].append(ColumnRef(path, span=reference.span))
        return matched


@dataclass(slots=True)
class DeviceNames:
    """Resolves the measurements of one device of an ALIGN BY DEVICE query, and records the series in `series`."""

    tree: SeriesTree
    device: Device
    series: dict[str, SeriesRef] = field(default_factory=dict)

    def all_series(self) -> list[str]:
        return [reference.name for reference in self(ColumnRef("*"))]

    def __call__(self, reference: ColumnRef) -> list[ColumnRef]:
        nodes = split_path(reference.name)
        if len(nodes) != 1 or nodes[0] == "**":
            message = "ALIGN BY DEVICE: the suffix paths can only be measurement or one-level wildcard"
            raise ProgrammingError(message, hint="move the other nodes to FROM", span=reference.span)
        matched = self.tree.match(PathPattern((*self.device.nodes, nodes[0]), reference.span))
        self.series |= {ref.name: ref for ref in matched}
        return [ColumnRef(ref.name, span=reference.span) for ref in matched]

    def or_null(self, reference: ColumnRef) -> Sequence[Expression]:
        """Return the measurements that a name matches; NULL if there is none."""
        return self(reference) or [Literal(None, span=reference.span)]


def counts_times(node: Expression) -> bool:
    """Return whether an expression counts the rows of all series."""
    return any(isinstance(part, Call) and part.function == COUNT_TIME for part in walk(node))


def result_header(written: Expression) -> Callable[[Expression], str]:
    """Return what names the result columns of an expression; `count_time(*)` keeps its spelling."""
    return (lambda _: result_name(written)) if counts_times(written) else result_name


def paths(node: Expression) -> list[ColumnRef]:
    """Return the paths of an expression, without `time` and other pseudo-columns."""
    return [part for part in walk(node) if isinstance(part, ColumnRef) and part.name not in (TIME, END_TIME)]


def mask_levels(nodes: Sequence[str], levels: Sequence[int], *, keep_measurement: bool) -> str:
    last = len(nodes) - 1
    kept = {0, *levels} - {last} | ({last} if keep_measurement else set())
    return join_path(node if at in kept else "*" for at, node in enumerate(nodes))


COUNTS: Final = frozenset(("count", "count_if"))
"""Aggregates that are 0 without values."""
ORDERS: Final[Mapping[str, Callable[[bool, bool], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def expand_where(node: Expression | None, alternatives: Alternatives, *, by_device: bool = False) -> list[Expression]:
    """Expand WHERE to the conditions that all have to be true. Raise `TypeMismatchError` if it is only paths of no series.

    Rows by device are refused only if it is a single path, as the server takes a conjunction of several for a BOOLEAN there.
    """
    parts = [] if node is None else expand(node, alternatives)
    if any(is_only_null(part, by_device=by_device) for part in parts):
        message = "The output type of the expression in WHERE clause should be BOOLEAN, actual data type: null."
        raise type_error(message, hint="compare series that exist")
    return [transform(part, order_booleans) for part in parts]


def is_only_null(node: Expression, *, by_device: bool) -> bool:
    """Return whether a condition consists of paths of no series, of one for rows by device, beside those on time."""
    rest = [part for part in conjuncts(node) if ColumnRef(TIME) not in walk(part)]
    return (len(rest) == 1 if by_device else bool(rest)) and all(isinstance(part, Literal) and part.value is None for part in rest)


def order_booleans(node: Expression) -> Expression | None:
    """Write an order of BOOLEAN, such as `s > false`, as equalities. It is possible in WHERE, between series and constants."""
    match node:
        case Call(
            function="between" | "not between" as function, arguments=(subject, Literal(value=bool(low)), Literal(value=bool(high)))
        ):
            accepted = {value for value in (False, True) if (low <= value <= high) == (function == "between")}
            return one_of(subject, accepted, node)
        case Call(function=sign, arguments=(ColumnRef() as subject, Literal(value=bool(bound)))) if sign in ORDERS:
            return one_of(subject, {value for value in (False, True) if ORDERS[sign](value, bound)}, node)
        case Call(function=sign, arguments=(Literal(value=bool(bound)), ColumnRef() as subject)) if sign in ORDERS:
            return one_of(subject, {value for value in (False, True) if ORDERS[sign](bound, value)}, node)
    return None


def one_of(subject: Expression, values: set[bool], node: Call) -> Expression:
    """Return the condition that a BOOLEAN has one of some values; NULL stays NULL."""
    yes, no = (replace(node, function="=", arguments=(subject, Literal(value)), attributes=()) for value in (True, False))
    if len(values) == 1:
        return yes if True in values else no
    return replace(node, function="or" if values else "and", arguments=(yes, no), attributes=())


def expand_having(
    node: Expression | None, alternatives: Alternatives, language: Language, *, typed: bool = False
) -> list[Expression]:
    """Expand HAVING to the conditions that all have to be true. An aggregate of no series is NULL, or 0 if it counts.

    With `typed`, rows are by device: an aggregate of no series has no type, and a count of none is NULL. Raise `TypeMismatchError`
    if the type of such an aggregate depends on the series.
    """

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Call) and language.aggregate(part.function) and any(map(is_null, part.arguments)):
            return Literal(0 if part.function in COUNTS and not typed else None)
        return None

    parts = [] if node is None else expand(normalize_count_if(node), alternatives)
    for part in parts if typed else ():
        check_having_types(part, language)
    return [transform(part, change) for part in parts]


def check_having_types(node: Expression, language: Language) -> None:
    """Raise `TypeMismatchError` if HAVING has an aggregate of no series whose type is that of its first argument."""
    for part in walk(node):
        if not isinstance(part, Call) or part.function in COUNTING or not language.aggregate(part.function):
            continue
        if any(map(is_null, part.arguments[:1])):
            message = f"Invalid input expression data type. expression: {part.function}, actual data type: UNKNOWN."
            raise type_error(message, hint="aggregate a measurement that one of the devices has")


def empty_if_null(where: Expression | None, having: Expression | None) -> Expression | None:
    """Return HAVING; false if WHERE is never true, as the result has no rows then, not even that of no values."""
    return Literal(False) if where is not None and is_never_true(where) else having


def is_never_true(node: Expression) -> bool:
    """Return whether a condition is not true in any row, because it needs paths of no series.

    A path alone does not count in a conjunction: the server has a row of no values for `s1 > 0 AND missing`.
    """
    match node:
        case Call(function="and", arguments=arguments):
            return any(is_never_true(part) for part in arguments if not isinstance(part, Literal))
        case Call(function="or", arguments=arguments):
            return all(map(is_never_true, arguments))
    return is_null(node)


def is_null(node: Expression) -> bool:
    """Return whether a condition is NULL whatever the rows, because of paths of no series."""
    match node:
        case Literal(value=value):
            return value is None
        case Call(function="and" | "or", arguments=arguments):
            return all(map(is_null, arguments))
        case Call(function="is null" | "is not null"):
            return False
        case Call(arguments=arguments):
            return any(map(is_null, arguments))
        case Cast(operand=operand):
            return is_null(operand)
    return False
