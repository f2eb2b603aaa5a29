"""The plan of a query: names resolved, types known, every expression a Spark SQL text. Plans are values and need no Spark.

Columns between the steps, in Spark's frames:

- *prepared* rows: `p0…` (partition and group keys), `_ts` (BIGINT ticks), `_series_key` (series key), `_key` (composite key column,
  where the table has one), `a0…` (arguments of aggregates), and of state and event windows `_state`, `_start`, `_end`
- *segments*: `p0…`, `_wstart`, `_wend` (BIGINT ticks; `_wend` is the last instant that belongs to the window, inclusive), `x0…`
  (partial aggregates), and what the kind of window needs to merge them: `_state`; `_start` and `_end`; `_first` and `_rows`
- *finished* windows: `p0…`, `_wstart`, `_wend` (ticks), `o0…` (the select list in its order, stored types)

Columns of the select list are numbered because their names need not be unique; `Plan.outputs` holds names and types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.compute.terms import ColumnRole
from headrace.model.queries import FillMode, Query, Union
from headrace.model.tables import Database, Table
from headrace.model.time import Duration, Precision
from headrace.model.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa

TS = "_ts"
SERIES = "_series_key"
KEY = "_key"
WSTART = "_wstart"
WEND = "_wend"
STATE = "_state"
START = "_start"
END = "_end"
FIRST = "_first"
ROWS = "_rows"
KEYS = "\x00keys\x00"
TIES = "\x00ties\x00"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of instants: ticks, or where `relative` an offset in ticks from the present. Inclusive."""

    ticks: int
    relative: bool = False

    def at(self, now: int) -> int:
        return self.ticks + now if self.relative else self.ticks


@dataclass(frozen=True, slots=True)
class Scan:
    """Reading one table. `columns` are the physical columns, tags and the series key that the plan uses, in the table's order.

    `condition` confines the rows to the series that are meant, as Spark SQL. A plan over the scan has it in its `filter`, a join or
    a union of scans applies it; who reads the scan may ignore it. `subtable` is the one series that the query names, if it does.
    """

    table: Table
    database: Database
    subtable: str | None
    alias: str | None
    columns: tuple[str, ...]
    condition: str | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags among the columns: reading needs the tags table only where there are some."""
        return tuple(name for name in self.columns if self.table.is_tag(name))


@dataclass(frozen=True, slots=True)
class JoinSource:
    """Two sources joined. Each side's columns are renamed to what `left` and `right` say: (column of the side, joined name)."""

    left: PlanSource
    right: PlanSource
    left_columns: tuple[tuple[str, str], ...]
    right_columns: tuple[tuple[str, str], ...]
    condition: str | None
    kind: str


@dataclass(frozen=True, slots=True)
class ScanUnion:
    """Series of several tables, read as one. `columns` says for each scan what each column of the union is of it, as Spark SQL."""

    scans: tuple[Scan, ...]
    columns: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """The source of a SELECT without FROM: one row without columns."""


@dataclass(frozen=True, slots=True)
class Key:
    """A partition or group key: `column` is its place in the frames, `name` how the user may call it.

    An `implied` key was not written: it is a tag fixed by the series that the other keys name. A key that `follows` is a
    function of the series key, which is a key itself: rows that have been told apart by that need not be told apart by it.
    """

    column: str
    name: str
    sql: str
    type: DataType
    implied: bool = False
    follows: bool = False
    role: ColumnRole | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """An expression over source columns that an aggregate or a window takes."""

    column: str
    sql: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Partial:
    """A column of a segment: how it arises from one prepared row (`row`), from many (`update`), and from segments (`merge`).

    `update` and `merge` are aggregate expressions. Without `row`, rows are aggregated before they are merged. `direct` is a cheaper
    `update` for a window whose rows are aggregated at once.
    """

    column: str
    update: str
    merge: str
    row: str | None = None
    direct: str | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One use of an aggregate function: its text for EXPLAIN, the partials it keeps, and its value made of them.

    `many` tells that the value is an array, one result row for each element.
    """

    function: str
    text: str
    partials: tuple[Partial, ...]
    final: str
    type: DataType
    bounded: bool = True
    many: bool = False

    @property
    def value(self) -> str:
        """Spark SQL of the value, as part of any expression."""
        return f"explode({self.final})" if self.many else f"({self.final})"

    @property
    def unmerged(self) -> Aggregate:
        return replace(self, partials=tuple(replace(part, update=part.direct or part.update) for part in self.partials))


@dataclass(frozen=True, slots=True)
class GroupCall:
    """An Arrow function over the rows of each group: `column` is its value, `rows` the partial that holds the rows.

    The rows are an array of structs: `time`, then a field for each argument. With `many` the value is an array.
    """

    column: str
    rows: str
    type: DataType
    apply: Callable[[pa.Table], pa.Array]
    many: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result, or a hidden one for ORDER BY. `sql` yields internal types (timestamps as ticks).

    `fills` tells that it depends on a window's rows, so that FILL has to make it where there are none.
    """

    column: str
    name: str
    sql: str
    type: DataType
    fills: bool = False
    role: ColumnRole | None = None


@dataclass(frozen=True, slots=True)
class IntervalWindow:
    """`INTERVAL`. `zone` is set where windows follow a calendar other than UTC's; months and days then mean that zone's."""

    length: Duration
    sliding: Duration
    offset: Duration
    zone: str | None = None

    @property
    def slides(self) -> bool:
        return self.sliding != self.length

    def most_slides(self, precision: Precision) -> int:
        """The greatest number of windows that one instant lies in."""
        length = Duration(31 * self.length.months, "d") if self.length.is_calendar else self.length
        return -(-length.ticks(precision) // self.sliding.ticks(precision))


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """`SESSION`: `gap` in ticks."""

    gap: int


@dataclass(frozen=True, slots=True)
class StateWindow:
    """`STATE_WINDOW`: runs of equal `_state`; `true_for` in ticks."""

    state: Argument
    true_for: int | None = None


@dataclass(frozen=True, slots=True)
class EventWindow:
    """`EVENT_WINDOW`: conditions as Spark SQL, never NULL; `true_for` in ticks."""

    start: str
    end: str
    true_for: int | None = None


@dataclass(frozen=True, slots=True)
class CountWindow:
    """`COUNT_WINDOW` of `count` rows, a new one every `sliding` rows."""

    count: int
    sliding: int


WindowPlan = IntervalWindow | SessionWindow | StateWindow | EventWindow | CountWindow


@dataclass(frozen=True, slots=True)
class FillPlan:
    """`FILL`: the mode, and of VALUE one constant (Spark SQL) for each output that is filled, hidden ones last."""

    mode: FillMode
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One use of a function of neighbours: its column `__s…`, and what its `SeriesRule` says, as Spark SQL
    in which `KEYS` and `TIES` stand for the columns of the partition and for those that order rows.
    """

    column: str
    function: str
    value: str
    first: str | None
    before: str | None
    keep: str | None
    order: str | None


@dataclass(frozen=True, slots=True)
class InterpPlan:
    """`INTERP`: points from `first` to `last` every so many ticks; the ends default to those of the data.

    `values` are the constants (Spark SQL) of VALUE, one for each argument.
    """

    first: Bound | None
    last: Bound | None
    every: int
    mode: FillMode
    values: tuple[str, ...] = ()
    skip_nulls: bool = False


@dataclass(frozen=True, slots=True)
class Sort:
    """One column of ORDER BY: `o…` or a hidden `h…`."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """One SELECT, bound. See the module's text for the columns.

    `now` is the present in epoch milliseconds; `at` gives the same plan at another present.
    `unique` tells that no two rows of one group have the same instant, so that first and last are free of ties.
    `empty_groups` is a condition on tags and `tbname` (Spark SQL): subtables that meet it have a group even if they have no rows.
    """

    query: Query = field(compare=False)
    source: PlanSource
    precision: Precision
    timezone: str
    now: int
    time: str | None
    series_key: str | None
    series_column: str | None
    key: str | None
    filter: str | None
    first: Bound | None
    last: Bound | None
    keys: tuple[Key, ...] = ()
    window: WindowPlan | None = None
    arguments: tuple[Argument, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    group_calls: tuple[GroupCall, ...] = ()
    outputs: tuple[Output, ...] = ()
    hidden: tuple[Output, ...] = ()
    having: str | None = None
    fill: FillPlan | None = None
    series: tuple[Series, ...] = ()
    interp: InterpPlan | None = None
    sorts: tuple[Sort, ...] = ()
    distinct: bool = False
    limit: int | None = None
    offset: int | None = None
    series_limit: int | None = None
    series_offset: int | None = None
    partitioned: bool = False
    aggregated: bool = False
    unique: bool = False
    empty_groups: str | None = None

    @property
    def present(self) -> int:
        """`now` in ticks."""
        return self.now * self.precision.ticks_per_second // 1000

    @property
    def grouped_series(self) -> Key | None:
        """The key that is the source's series key, so that no group has rows of two series."""
        return next((key for key in self.keys if key.role is ColumnRole.SERIES), None)

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Every partial column once, in order."""
        return tuple(dict.fromkeys(partial for aggregate in self.aggregates for partial in aggregate.partials))

    @property
    def range(self) -> tuple[int | None, int | None]:
        """First and last instant, in ticks and inclusive, that WHERE lets through."""
        ends = (self.first, self.last)
        first, last = (None if end is None else end.at(self.present) for end in ends)
        return first, last

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Every table that is read."""
        return tuple(scans(self.source))

    @property
    def unmerged(self) -> Plan:
        """The plan whose partials are made the cheaper way that does not let them be merged."""
        return replace(self, aggregates=tuple(aggregate.unmerged for aggregate in self.aggregates))

    def at(self, now: int) -> Plan:
        """The plan at another present (epoch milliseconds), in itself and in its sub-queries."""
        return replace(self, now=now, source=moved(self.source, now))


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """`left UNION [ALL] right`; names and types are the left's, the right's values are cast to them."""

    query: Union = field(compare=False)
    left: AnyPlan
    right: AnyPlan
    outputs: tuple[Output, ...]
    precision: Precision
    all: bool = False
    sorts: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int | None = None

    @property
    def timezone(self) -> str:
        """The time zone of the left side."""
        return self.left.timezone

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Every table that is read."""
        return tuple(scans(self))

    def at(self, now: int) -> UnionPlan:
        """The plan at another present (epoch milliseconds)."""
        return replace(self, left=self.left.at(now), right=self.right.at(now))


AnyPlan = Plan | UnionPlan
PlanSource = Scan | ScanUnion | JoinSource | Nothing | Plan | UnionPlan


def scans(source: PlanSource) -> Iterator[Scan]:
    """Every table read by a source, from left to right."""
    match source:
        case Scan():
            yield source
        case ScanUnion(scans=several):
            yield from several
        case Plan():
            yield from scans(source.source)
        case UnionPlan() | JoinSource():
            yield from scans(source.left)
            yield from scans(source.right)


def moved(source: PlanSource, now: int) -> PlanSource:
    """A source at another present."""
    match source:
        case Plan() | UnionPlan():
            return source.at(now)
        case JoinSource():
            return replace(source, left=moved(source.left, now), right=moved(source.right, now))
        case _:
            return source
