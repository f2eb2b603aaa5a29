"""Compute an expanded query over trees in DuckDB, clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.queries import SelectItem
from headrace.model.time import Precision
from headrace.model.tree_queries import GroupByTime, TreeGrouping, TreeQuery
from headrace.model.types import TIMESTAMP, VARCHAR, DataType
from headrace.verify.trees.aggregates import AGGREGATES, COUNT_IF, TreeAggregate, aggregate_calls, count_if, is_aggregate
from headrace.verify.trees.expanded import Expanded, present
from headrace.verify.trees.expansion import END_TIME, is_time
from headrace.verify.trees.expressions import TreeCompiler
from headrace.verify.trees.fill import filled
from headrace.verify.trees.rows import Rows
from headrace.verify.trees.runs import EDGES, RowWindows
from headrace.verify.trees.scalars import FLOATS
from headrace.verify.trees.series import SeriesColumns, is_sparse, series_calls
from headrace.verify.trees.source import text
from headrace.verify.trees.spans import Window, windows_of
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
class TreeSelect:
    """Computes one expanded query.

    Attributes:
        step: Computes a relation and returns its name.
        aggregates: The columns of aggregates over groups.
        calls: The columns of time-series functions over rows.
    """

    connection: duckdb.DuckDBPyConnection
    step: Callable[[str, str], str]
    query: TreeQuery
    expanded: Expanded
    precision: Precision
    timezone: str
    aggregates: dict[TreeAggregate, str] = field(default_factory=dict)
    calls: dict[Expression, Value] = field(default_factory=dict)

    def result(self) -> TreeResult:
        """Compute the query."""
        grouping = self.query.grouping or TreeGrouping()
        aggregated = any(aggregate_calls(item.expression) for item in self.items)
        windowed = grouping.time is not None or grouping.rows is not None
        if windowed and not aggregated:
            raise unsupported("GROUP BY without aggregates")
        rows = self.with_calls(self.filtered(), aggregated=aggregated)
        shown = windowed or not aggregated
        relation, columns = self.grouped(rows) if aggregated else self.projected(rows)
        outputs = self.fixed_outputs(shown) + columns
        order = self.order(shown, windowed)
        relation = self.fill(relation, outputs, shown, order)
        return self.sorted(relation, tuple(outputs), order, windowed)

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
        """The clause GROUP BY time or by rows."""
        return None if self.query.grouping is None else self.query.grouping.time or self.query.grouping.rows

    def row_compiler(self) -> TreeCompiler:
        """Return the compiler of expressions over rows."""
        return TreeCompiler(self.row_leaf, self.precision, self.timezone)

    def row_leaf(self, node: Expression) -> Value | None:
        """Compile a column of a row, or a call of a time-series function; a column that no row has is NULL."""
        if not isinstance(node, ColumnRef):
            return self.calls.get(node)
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
            case Call(function=function) if is_aggregate(function):
                return self.aggregate(node)
        return None

    def having_leaf(self, node: Expression) -> Value | None:
        """Compile an aggregate in HAVING, a count of a measurement that a device lacks as NULL."""
        value = self.group_leaf(node)
        absent = self.expanded.absent.get(node, frozenset())
        return value if value is None else replace(value, sql=without_devices(value.sql, absent))

    def aggregate(self, node: Call) -> Value:
        """Compile an aggregate to a column of the groups."""
        compiler = self.row_compiler()
        values = [compiler.value(part) for part in node.arguments]
        if any(value.type is None for value in values):
            raise unsupported(f"{node.function} of NULL")
        rule = count_if(node, values) if node.function == COUNT_IF else AGGREGATES[node.function](values)
        column = self.aggregates.setdefault(rule, f"a{len(self.aggregates)}")
        return Value(f"({rule.final.replace('{a}', column)})", rule.type)

    def filtered(self) -> str:
        """Compute the rows that pass WHERE."""
        rows, where = self.expanded.rows, self.expanded.where
        return (
            rows.relation
            if where is None
            else self.step("filtered", f"SELECT * FROM {rows.relation} WHERE {self.row_compiler().condition(where)}")
        )

    def with_calls(self, rows: str, *, aggregated: bool) -> str:
        """Compute the time-series functions of rows, which then have a column for each.

        Rows for which none of the values that the query aggregates is a point are left out.
        """
        nodes: list[Expression] = [*(item.expression for item in self.items), *(key for _, key in self.sort_keys())]
        nodes.extend(present(self.expanded.having, self.expanded.control))
        if any(series_calls(nodes)):
            rows = self.in_windows(rows)
        columns = SeriesColumns(self.connection, self.step, self.row_compiler(), self.by_device, self.calls)
        with_columns = columns.add(rows, nodes)
        if not aggregated:
            return with_columns
        inputs = [*aggregated_values(nodes), *present(self.expanded.control)]
        return self.with_values(with_columns, inputs) if is_sparse(inputs) else with_columns

    def in_windows(self, rows: str) -> str:
        """Compute the rows that lie in a window of GROUP BY time, which are all that time-series functions see."""
        clause = None if self.query.grouping is None else self.query.grouping.time
        if clause is None:
            return rows
        windows = self.table("windows", self.window_columns(clause))
        return self.step("in_windows", f"SELECT * FROM {rows} r SEMI JOIN {windows} k ON r._ts BETWEEN k._first AND k._last")

    def with_values(self, rows: str, nodes: Sequence[Expression]) -> str:
        """Compute the rows in which one of some expressions has a value."""
        compiler = self.row_compiler()
        tests = [f"{compiler.value(node).sql} IS NOT NULL" for node in nodes]
        return self.step("with_values", f"SELECT * FROM {rows} WHERE {' OR '.join(tests)}")

    def projected(self, rows: str) -> tuple[str, list[TreeOutput]]:
        """Compute the columns of each row."""
        compiler = self.row_compiler()
        values = [compiler.value(item.expression) for item in self.items]
        keys = [f"{sort_value(compiler.value(key))} AS k{number}" for number, key in self.sort_keys()]
        device = ["_device"] if self.by_device else []
        columns = self.output_columns(values)
        relation = self.step("projected", f"SELECT {', '.join(['_ts AS _time', *device, *columns, *keys])} FROM {rows}")
        if is_sparse([item.expression for item in self.items]):
            tests = " OR ".join(f"o{number} IS NOT NULL" for number in range(len(values)))
            relation = self.step("with_values", f"SELECT * FROM {relation} WHERE {tests}")
        return relation, self.outputs(values)

    def grouped(self, rows: str) -> tuple[str, list[TreeOutput]]:
        """Compute the columns of each group: of all rows, of devices, of windows, or of both."""
        compiler = TreeCompiler(self.group_leaf, self.precision, self.timezone)
        values = [compiler.value(item.expression) for item in self.items]
        keys = [f"{sort_value(compiler.value(key))} AS k{number}" for number, key in self.sort_keys()]
        conditions = TreeCompiler(self.having_leaf, self.precision, self.timezone)
        having = "true" if self.expanded.having is None else conditions.condition(self.expanded.having)
        names = ["_device"] if self.by_device else []
        names += EDGES if self.clause is not None else []
        sums = [f"{rule.sql} AS {column}" for rule, column in self.aggregates.items()]
        groups = self.step("groups", f"SELECT {', '.join([*names, *sums])} FROM {self.members(rows)}{self.group_by(names)}")
        sql = f"SELECT {', '.join([*names, *self.output_columns(values), *keys])} FROM {groups} WHERE {having}"
        return self.step("aggregated", sql), self.outputs(values)

    def output_columns(self, values: Sequence[Value]) -> list[str]:
        """Return the columns `o…`, NULL for devices that have no series of one."""
        return [
            f"{without_devices(value.sql, self.expanded.absent.get(item.expression, frozenset()))} AS o{number}"
            for number, (item, value) in enumerate(zip(self.items, values, strict=True))
        ]

    def outputs(self, values: Sequence[Value]) -> list[TreeOutput]:
        """Return the columns of the select list."""
        return [
            TreeOutput(f"o{number}", item.name, value.type)
            for number, (item, value) in enumerate(zip(self.items, values, strict=True))
        ]

    @staticmethod
    def group_by(names: Sequence[str]) -> str:
        """Return the GROUP BY clause."""
        return f" GROUP BY {', '.join(names)}" if names else ""

    def members(self, rows: str) -> str:
        """Return rows with the keys of their groups; groups without rows have one row of NULLs, but for windows made of rows."""
        devices, conditions, keys = self.expanded.rows.devices, [], []
        grouping = self.query.grouping or TreeGrouping()
        if grouping.rows is not None:
            control = None if self.expanded.control is None else self.row_compiler().value(self.expanded.control)
            return RowWindows(self.connection, self.step, self.precision, self.by_device, control).assigned(grouping.rows, rows)
        if devices is not None:
            keys.append(self.table("devices", {"_device": pa.array(devices, pa.string())}))
            conditions.append("r._device = k._device")
        if grouping.time is not None:
            keys.append(self.table("windows", self.window_columns(grouping.time)))
            conditions.append("r._ts BETWEEN k._first AND k._last")
        if not keys:
            return rows
        joined = f"(SELECT * FROM {' CROSS JOIN '.join(keys)}) k LEFT JOIN {rows} r ON {' AND '.join(conditions)}"
        return f"(SELECT k.*, r.*{' EXCLUDE (_device)' if devices is not None else ''} FROM {joined})"

    def table(self, label: str, columns: dict[str, pa.Array]) -> str:
        """Return a relation with some columns."""
        self.connection.register("values_in", pa.table(columns))
        relation = self.step(label, "SELECT * FROM values_in")
        self.connection.unregister("values_in")
        return relation

    def window_columns(self, clause: GroupByTime) -> dict[str, pa.Array]:
        """Return the windows of GROUP BY time as columns."""
        windows: list[Window] = windows_of(clause, self.row_compiler().ticks, self.precision, self.timezone)
        return {
            f"_{name}": pa.array([getattr(window, name) for window in windows], pa.int64())
            for name in ("time", "end", "first", "last")
        }

    def fixed_outputs(self, shows_time: bool) -> list[TreeOutput]:
        """Return the columns before those of the select list: time, device, end of the window."""
        outputs = [TreeOutput("_time", TIME_NAME, TIMESTAMP)] if shows_time else []
        tags = self.expanded.tags
        if tags is not None:
            outputs += [TreeOutput(column, key, VARCHAR) for key, column in zip(tags.keys, tags.columns, strict=True)]
        elif self.by_device:
            outputs.append(TreeOutput("_device", DEVICE_NAME, VARCHAR))
        ends = [item for item in self.expanded.items if item.expression == ColumnRef(END_TIME)][:1]
        return outputs + [TreeOutput("_end", item.alias or END_TIME, TIMESTAMP) for item in ends]

    def fill(self, relation: str, outputs: Sequence[TreeOutput], shows_time: bool, order: str) -> str:
        """Compute FILL over the rows in the order of the result."""
        fill = self.query.fill
        if fill is None:
            return relation
        if not shows_time:
            raise unsupported("FILL of a result without times")
        columns = [output for output in outputs if output.column.startswith("o")]
        replaced = [f"{filled(fill, output.column, output.type, order, self.precision)} AS {output.column}" for output in columns]
        return self.step("filled", f"SELECT * REPLACE ({', '.join(replaced)}) FROM {relation}")

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

    def order(self, shows_time: bool, windowed: bool) -> str:
        """Return the ORDER BY of the result, empty for one row."""
        tags = self.expanded.tags
        terms = [
            f"{self.fixed_key(order.key) or f'k{number}'} {'DESC' if order.descending else 'ASC'} "
            f"NULLS {'FIRST' if order.nulls_first else 'LAST'}"
            for number, order in enumerate(self.expanded.orders)
            if shows_time or self.fixed_key(order.key) != "_time"
        ]
        # Windows that are cut at the range's end may show the same time, and follow its direction.
        descends = any(order.descending for order in self.expanded.orders if self.fixed_key(order.key) == "_time")
        times = (["_time"] if shows_time else []) + ([f"_first {'DESC' if descends else 'ASC'}"] if windowed else [])
        devices = ["_device"] if self.by_device else []
        terms += devices + times if tags is None else times + devices
        return f"ORDER BY {', '.join(terms)}" if terms else ""

    def sorted(self, relation: str, outputs: tuple[TreeOutput, ...], order: str, windowed: bool) -> TreeResult:
        """Compute ORDER BY, LIMIT and OFFSET."""
        tags = self.expanded.tags
        # With GROUP BY TAGS, the limits count windows.
        size = 1 if tags is None else len(tags.values)
        limit = (f" LIMIT {self.query.limit * size}" if self.query.limit is not None else "") + (
            f" OFFSET {self.query.offset * size}" if self.query.offset else ""
        )
        columns = (
            [] if tags is None else [f"{sql} AS {column}" for column, sql in zip(tags.columns, tags.values_sql(), strict=True)]
        )
        selected = ", ".join(["*", *columns, f"row_number() OVER ({order}) AS _n"])
        sql = f"SELECT {selected} FROM {relation} {order}{limit}"
        fixed = [number for number, output in enumerate(outputs) if output.column in ("_time", "_device")]
        ordered = tuple(fixed) if not self.sort_keys() else ()
        return TreeResult(self.step("result", sql), outputs, self.precision, ordered, self.expanded.rows, windowed)


def sort_value(value: Value) -> str:
    """Return a sort key as SQL. A FLOAT or DOUBLE has its angle too, which orders -0.0 before 0.0."""
    if not value.is_kind(*FLOATS):
        return value.sql
    return f"(CASE WHEN {value.sql} IS NOT NULL THEN struct_pack(x := {value.sql}, angle := atan2({value.sql}, -1)) END)"


def aggregated_values(nodes: Sequence[Expression]) -> list[Expression]:
    """Return what the aggregates in some expressions read, without constants."""
    arguments = [part for node in nodes for call in aggregate_calls(node) for part in call.arguments]
    return list(filterfalse(lambda part: isinstance(part, Literal), arguments))


def without_devices(sql: str, devices: Iterable[str]) -> str:
    """Return a value as SQL, NULL for some devices."""
    names = sorted(devices)
    return f"CASE WHEN _device NOT IN ({', '.join(map(text, names))}) THEN {sql} END" if names else sql
