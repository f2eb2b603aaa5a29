"""Compute a query over trees in DuckDB, clause by clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import SelectItem
from headrace.model.time import Precision
from headrace.model.tree_queries import TreeGrouping, TreeQuery
from headrace.model.types import TIMESTAMP, VARCHAR, DataType
from headrace.verify.trees.aggregates import AGGREGATES, TreeAggregate, is_aggregate
from headrace.verify.trees.expanded import Expanded, Expansion
from headrace.verify.trees.expansion import (
    END_TIME,
    is_time,
)
from headrace.verify.trees.expressions import TreeCompiler
from headrace.verify.trees.fill import filled
from headrace.verify.trees.rows import Rows, RowsBuilder
from headrace.verify.trees.source import Loader, TreeSource, precision_of
from headrace.verify.trees.spans import Window, bounds_of, windows_of
from headrace.verify.values import Value, unsupported

if TYPE_CHECKING:
    import duckdb

TIME_NAME: Final = "Time"
DEVICE_NAME: Final = "Device"


@dataclass(frozen=True, slots=True)
class TreeOutput:
    """A column of the result: its column `o…`, name and type."""

    column: str
    name: str
    type: DataType | None


@dataclass(frozen=True, slots=True)
class TreeResult:
    """A result: a relation with columns `o…`, in the order of `_n`.

    Attributes:
        outputs: The columns: time and device, if the result has them, first.
        ordered: Positions of the columns whose order is defined.
        rows: The rows behind it.
        windowed: Whether each row is that of a window, `_first` to `_last`.
    """

    relation: str
    outputs: tuple[TreeOutput, ...]
    precision: Precision
    ordered: tuple[int, ...]
    rows: Rows
    windowed: bool


@dataclass(slots=True)
class TreeRecomputation:
    """Computes queries in one connection."""

    connection: duckdb.DuckDBPyConnection
    source: TreeSource
    steps: int = 0

    def step(self, label: str, sql: str) -> str:
        """Compute a relation and return its name."""
        self.steps += 1
        name = f"t{self.steps}_{label}"
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def result(self, query: TreeQuery) -> TreeResult | None:
        """Compute a query; None if its paths match no series."""
        check_supported(query)
        precision = precision_of(self.source, {device.database for device in self.source.devices})
        compiler = TreeCompiler(lambda _: None, precision, self.source.timezone)
        loader = Loader(self.connection, self.source, bounds_of(query, compiler.ticks))
        expanded = Expansion(query, self.source, RowsBuilder(loader, self.step)).expand()
        return None if expanded is None else TreeSelect(self, query, expanded, precision).result()


def check_supported(query: TreeQuery) -> None:
    """Raise `NotSupportedError` for clauses that are not recomputed."""
    grouping = query.grouping or TreeGrouping()
    features = {
        "SELECT LAST": query.last,
        "INTO": bool(query.into),
        "GROUP BY TAGS": bool(grouping.tags),
        "SLIMIT and SOFFSET": query.series_limit is not None or query.series_offset is not None,
        "FILL of descending rows": query.fill is not None and any(order.descending for order in query.order_by),
        "GROUP BY VARIATION, CONDITION, SESSION and COUNT": grouping.rows is not None,
    }
    for feature, is_used in features.items():
        if is_used:
            raise unsupported(feature)


def is_aggregated(nodes: Sequence[Expression]) -> bool:
    """Return whether a query aggregates rows."""
    return any(isinstance(part, Call) and is_aggregate(part.function) for node in nodes for part in walk(node))


@dataclass(slots=True)
class TreeSelect:
    """Computes one expanded query."""

    work: TreeRecomputation
    query: TreeQuery
    expanded: Expanded
    precision: Precision
    aggregates: dict[TreeAggregate, str] = field(default_factory=dict)

    def result(self) -> TreeResult:
        """Compute the query."""
        nodes = [item.expression for item in self.items]
        aggregated = is_aggregated(nodes)
        filtered = self.filtered()
        windowed = self.clause is not None
        if aggregated:
            relation, columns = self.grouped(filtered)
            shown = windowed
        elif windowed:
            raise unsupported("GROUP BY time without aggregates")
        else:
            relation, columns = self.projected(filtered)
            shown = True
        outputs = self.fixed_outputs(shown) + columns
        relation = self.fill(relation, outputs, shown)
        return self.sorted(relation, tuple(outputs), shown, windowed)

    @property
    def items(self) -> list[SelectItem]:
        """The columns other than `__endTime`."""
        return [item for item in self.expanded.items if item.expression != ColumnRef(END_TIME)]

    @property
    def by_device(self) -> bool:
        """Whether rows are of devices."""
        return self.expanded.rows.devices is not None

    @property
    def clause(self) -> object | None:
        """The clause GROUP BY time."""
        return None if self.query.grouping is None else self.query.grouping.time

    def row_compiler(self) -> TreeCompiler:
        """Return the compiler of expressions over rows."""
        return TreeCompiler(self.row_leaf, self.precision, self.work.source.timezone)

    def row_leaf(self, node: Expression) -> Value | None:
        """Compile a column of a row; one that no row has is NULL."""
        if not isinstance(node, ColumnRef):
            return None
        if is_time(node):
            return Value("_ts", TIMESTAMP)
        return self.expanded.rows.columns.get(node.name, Value("NULL", None))

    def group_leaf(self, node: Expression) -> Value | None:
        """Compile an aggregate, or the time of a window."""
        match node:
            case ColumnRef() if is_time(node):
                return Value("_time", TIMESTAMP)
            case ColumnRef(name=name) if name == END_TIME:
                return Value("_end", TIMESTAMP)
            case ColumnRef(name=name):
                raise unsupported(f"{name} beside aggregates")
            case Call(function=function) if function in AGGREGATES:
                return self.aggregate(node)
            case Call(function=function) if is_aggregate(function):
                raise unsupported(f"the function {function}")
        return None

    def aggregate(self, node: Call) -> Value:
        """Compile an aggregate to a column of the groups."""
        compiler = self.row_compiler()
        values = [compiler.value(part) for part in node.arguments]
        if any(value.type is None for value in values):
            raise unsupported(f"{node.function} of NULL")
        rule = AGGREGATES[node.function](values)
        column = self.aggregates.setdefault(rule, f"a{len(self.aggregates)}")
        return Value(f"({rule.final.replace('{a}', column)})", rule.type)

    def filtered(self) -> str:
        """Compute the rows that pass WHERE."""
        rows, where = self.expanded.rows, self.expanded.where
        return (
            rows.relation
            if where is None
            else self.work.step("filtered", f"SELECT * FROM {rows.relation} WHERE {self.row_compiler().condition(where)}")
        )

    def projected(self, rows: str) -> tuple[str, list[TreeOutput]]:
        """Compute the columns of each row."""
        compiler = self.row_compiler()
        values = [compiler.value(item.expression) for item in self.items]
        keys = [f"{compiler.value(key).sql} AS k{number}" for number, key in self.sort_keys()]
        device = ["_device"] if self.by_device else []
        columns = [f"{value.sql} AS o{number}" for number, value in enumerate(values)]
        return self.work.step("projected", f"SELECT {', '.join(['_ts AS _time', *device, *columns, *keys])} FROM {rows}"), [
            TreeOutput(f"o{number}", item.name, value.type)
            for number, (item, value) in enumerate(zip(self.items, values, strict=True))
        ]

    def grouped(self, rows: str) -> tuple[str, list[TreeOutput]]:
        """Compute the columns of each group: of all rows, of devices, of windows, or of both."""
        compiler = TreeCompiler(self.group_leaf, self.precision, self.work.source.timezone)
        values = [compiler.value(item.expression) for item in self.items]
        keys = [f"{compiler.value(key).sql} AS k{number}" for number, key in self.sort_keys()]
        having = "true" if self.expanded.having is None else compiler.condition(self.expanded.having)
        names = ["_device"] if self.by_device else []
        names += ["_time", "_end", "_first", "_last"] if self.clause is not None else []
        sums = [f"{rule.sql} AS {column}" for rule, column in self.aggregates.items()]
        groups = self.work.step("groups", f"SELECT {', '.join([*names, *sums])} FROM {self.members(rows)}{self.group_by(names)}")
        columns = [f"{value.sql} AS o{number}" for number, value in enumerate(values)]
        sql = f"SELECT {', '.join([*names, *columns, *keys])} FROM {groups} WHERE {having}"
        return self.work.step("aggregated", sql), [
            TreeOutput(f"o{number}", item.name, value.type)
            for number, (item, value) in enumerate(zip(self.items, values, strict=True))
        ]

    @staticmethod
    def group_by(names: Sequence[str]) -> str:
        """Return the GROUP BY clause."""
        return f" GROUP BY {', '.join(names)}" if names else ""

    def members(self, rows: str) -> str:
        """Return rows with the keys of their groups; groups without rows have one row of NULLs."""
        devices, conditions, keys = self.expanded.rows.devices, [], []
        if devices is not None:
            keys.append(self.table("devices", {"_device": pa.array(devices, pa.string())}))
            conditions.append("r._device = k._device")
        if self.clause is not None:
            keys.append(self.table("windows", self.window_columns()))
            conditions.append("r._ts BETWEEN k._first AND k._last")
        if not keys:
            return rows
        columns = ", ".join(["_ts", *(column.sql for column in self.expanded.rows.columns.values())])
        joined = f"(SELECT * FROM {' CROSS JOIN '.join(keys)}) k LEFT JOIN {rows} r ON {' AND '.join(conditions)}"
        return f"(SELECT k.*, {columns} FROM {joined})"

    def table(self, label: str, columns: dict[str, pa.Array]) -> str:
        """Return a relation with some columns."""
        self.work.connection.register("values_in", pa.table(columns))
        relation = self.work.step(label, "SELECT * FROM values_in")
        self.work.connection.unregister("values_in")
        return relation

    def window_columns(self) -> dict[str, pa.Array]:
        """Return the windows of GROUP BY time as columns."""
        grouping = self.query.grouping
        assert grouping is not None
        assert grouping.time is not None
        windows: list[Window] = windows_of(grouping.time, self.row_compiler().ticks, self.precision, self.work.source.timezone)
        return {
            f"_{name}": pa.array([getattr(window, name) for window in windows], pa.int64())
            for name in ("time", "end", "first", "last")
        }

    def fixed_outputs(self, shows_time: bool) -> list[TreeOutput]:
        """Return the columns before those of the select list: time, device, end of the window."""
        outputs = [TreeOutput("_time", TIME_NAME, TIMESTAMP)] if shows_time else []
        outputs += [TreeOutput("_device", DEVICE_NAME, VARCHAR)] if self.by_device else []
        ends = [item for item in self.expanded.items if item.expression == ColumnRef(END_TIME)][:1]
        return outputs + [TreeOutput("_end", item.alias or END_TIME, TIMESTAMP) for item in ends]

    def fill(self, relation: str, outputs: Sequence[TreeOutput], shows_time: bool) -> str:
        """Compute FILL."""
        fill = self.query.fill
        if fill is None:
            return relation
        if not shows_time:
            raise unsupported("FILL of a result without times")
        by = f"{'PARTITION BY _device ' if self.by_device else ''}ORDER BY {'_first' if self.clause is not None else '_time'}"
        columns = [output for output in outputs if output.column.startswith("o")]
        replaced = [f"{filled(fill, output.column, output.type, by, self.precision)} AS {output.column}" for output in columns]
        return self.work.step("filled", f"SELECT * REPLACE ({', '.join(replaced)}) FROM {relation}")

    def sort_keys(self) -> list[tuple[int, Expression]]:
        """Return the expressions of ORDER BY, other than time and device, with their positions."""
        keys = [(number, order.key) for number, order in enumerate(self.expanded.orders)]
        return [(number, key) for number, key in keys if not self.fixed_key(key)]

    def fixed_key(self, key: Expression) -> str:
        """Return the column of `time` or `device` in ORDER BY, empty for other keys."""
        if isinstance(key, ColumnRef):
            if is_time(key):
                return "_time"
            if key.name.lower() == "device" and self.by_device:
                return "_device"
        return ""

    def sorted(self, relation: str, outputs: tuple[TreeOutput, ...], shows_time: bool, windowed: bool) -> TreeResult:
        """Compute ORDER BY, LIMIT and OFFSET."""
        terms = [
            f"{self.fixed_key(order.key) or f'k{number}'} {'DESC' if order.descending else 'ASC'} "
            f"NULLS {'FIRST' if order.nulls_first else 'LAST'}"
            for number, order in enumerate(self.expanded.orders)
            if shows_time or self.fixed_key(order.key) != "_time"
        ]
        # Windows that are cut at the range's end may show the same time.
        terms += ["_device"] if self.by_device else []
        terms += (["_time"] if shows_time else []) + (["_first"] if windowed else [])
        by = f" ORDER BY {', '.join(terms)}" if terms else ""
        limit = (f" LIMIT {self.query.limit}" if self.query.limit is not None else "") + (
            f" OFFSET {self.query.offset}" if self.query.offset else ""
        )
        sql = f"SELECT *, row_number() OVER ({by.strip()}) AS _n FROM {relation}{by}{limit}"
        fixed = [number for number, output in enumerate(outputs) if output.column in ("_time", "_device")]
        ordered = tuple(fixed) if not self.sort_keys() else ()
        return TreeResult(self.work.step("result", sql), outputs, self.precision, ordered, self.expanded.rows, windowed)
