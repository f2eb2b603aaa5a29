"""Compute a query over trees in DuckDB, clause by clause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import GroupByTime, TreeGrouping, TreeQuery
from headrace.model.types import TIMESTAMP, VARCHAR
from headrace.verify.expressions import Compiler, Leaf
from headrace.verify.iotdb.aggregates import AGGREGATES, aggregate_calls, aggregated_values, compile_aggregate
from headrace.verify.iotdb.expanded import Expanded, Expansion, items_of, present
from headrace.verify.iotdb.expansion import END_TIME, is_time
from headrace.verify.iotdb.fill import filled
from headrace.verify.iotdb.operators import LANGUAGE
from headrace.verify.iotdb.runs import RowWindows
from headrace.verify.iotdb.series import SeriesColumns, is_sparse, series_calls
from headrace.verify.iotdb.sources import RowsBuilder, TreeSource
from headrace.verify.iotdb.spans import EDGES, bounds_of, windows_of
from headrace.verify.result import Answer, Members, Output
from headrace.verify.steps import END, START, TS, Partition, Steps, order_term
from headrace.verify.values import FLOATS, Value, quoted, unsupported
from headrace.verify.zones import Clock

TIME_NAME: Final = "Time"
DEVICE_NAME: Final = "Device"


def answer_tree(steps: Steps, query: TreeQuery, source: TreeSource) -> Answer | None:
    """Compute a query; None if its paths match no series."""
    features = {
        "SELECT LAST": query.last,
        "INTO": query.into,
        "SLIMIT and SOFFSET": query.series_limit is not None or query.series_offset is not None,
    }
    for feature, is_used in features.items():
        if is_used:
            raise unsupported(feature)
    compiler = Compiler(LANGUAGE, lambda _: None, source.precision, source.timezone)
    expanded = Expansion(query, source, RowsBuilder(steps, source, bounds_of(query, compiler))).expand()
    return None if expanded is None else _TreeSelect(steps, query, expanded, compiler).answer()


@dataclass(slots=True)
class _TreeSelect:
    """Computes one expanded query; `aggregates` are columns over groups by their SQL, `calls` those of time-series functions."""

    steps: Steps
    query: TreeQuery
    expanded: Expanded
    compiler: Compiler
    aggregates: dict[str, str] = field(default_factory=dict)
    calls: dict[Expression, Value] = field(default_factory=dict)

    def answer(self) -> Answer:
        if self.windowed and not self.aggregated:
            raise unsupported("GROUP BY without aggregates")
        rows = self._with_calls(self._filtered())
        relation, values = self._grouped(rows) if self.aggregated else self._projected(rows)
        outputs = [Output(f"o{at}", item.name, value.type) for at, (item, value) in enumerate(zip(self.items, values, strict=True))]
        order = self._order()
        relation = self._filled(relation, outputs, order)
        return self._sorted(relation, (*self._fixed_outputs(), *outputs), order)

    @property
    def items(self) -> list[SelectItem]:
        """The columns other than `__endTime`."""
        return [item for item in self.expanded.items if item.expression != ColumnRef(END_TIME)]

    @property
    def nodes(self) -> list[Expression]:
        return items_of(self.items)

    @property
    def keys(self) -> list[str]:
        return [] if self.expanded.rows.devices is None else ["_device"]

    @property
    def grouping(self) -> TreeGrouping:
        return self.query.grouping or TreeGrouping()

    @property
    def windowed(self) -> bool:
        return self.grouping.time is not None or self.grouping.rows is not None

    @property
    def aggregated(self) -> bool:
        return bool(aggregate_calls(*self.nodes))

    @property
    def shows_time(self) -> bool:
        return self.windowed or not self.aggregated

    def _compiler(self, leaf: Leaf) -> Compiler:
        return replace(self.compiler, leaf=leaf)

    @property
    def row_compiler(self) -> Compiler:
        return self._compiler(self._row_leaf)

    def _row_leaf(self, node: Expression) -> Value | None:
        """Compile a column of a row, or a call of a time-series function; a column that no row has is NULL."""
        if not isinstance(node, ColumnRef):
            return self.calls.get(node)
        if is_time(node):
            return Value(TS, TIMESTAMP)
        return self.expanded.rows.columns.get(node.name, Value("NULL", None))

    def _group_leaf(self, node: Expression) -> Value | None:
        match node:
            case ColumnRef() if is_time(node):
                return Value("_time", TIMESTAMP)
            case ColumnRef(name=name) if name == END_TIME:
                return Value("_end", TIMESTAMP)
            case ColumnRef(name=name):
                raise unsupported(f"{name} beside aggregates")
            case Call(function=function) if function in AGGREGATES:
                rule = compile_aggregate(self.row_compiler, node)
                column = self.aggregates.setdefault(rule.sql, f"a{len(self.aggregates)}")
                return Value(f"({rule.final.replace('{a}', column)})", rule.type)
        return None

    def _having_leaf(self, node: Expression) -> Value | None:
        """Compile an aggregate in HAVING, a count of a measurement that a device lacks as NULL."""
        value = self._group_leaf(node)
        return None if value is None else replace(value, sql=self._without_absent(node, value))

    def _filtered(self) -> str:
        rows, where = self.expanded.rows.relation, self.expanded.where
        if where is None:
            return rows
        return self.steps.step("filtered", f"SELECT * FROM {rows} WHERE {self.row_compiler.condition(where)}")

    def _with_calls(self, rows: str) -> str:
        """Compute the time-series functions of rows, which then have a column for each.

        Rows for which none of the values that the query aggregates is a point are left out.
        """
        nodes = [*self.nodes, *(key for _, key in self._sort_keys()), *present(self.expanded.having, self.expanded.control)]
        if any(series_calls(nodes)) and self.grouping.time is not None:
            # They see only the rows that lie in a window.
            windows, within = self._time_windows(self.grouping.time), f"r.{TS} BETWEEN k.{START} AND k.{END}"
            rows = self.steps.step("in_windows", f"SELECT * FROM {rows} r SEMI JOIN {windows} k ON {within}")
        rows = SeriesColumns(self.steps, self.row_compiler, Partition(tuple(self.keys), (TS,)), self.calls).add(rows, nodes)
        inputs = [*aggregated_values(nodes), *present(self.expanded.control)]
        if not self.aggregated or not is_sparse(inputs):
            return rows
        return self._with_values(rows, [self.row_compiler.value(node).sql for node in inputs])

    def _with_values(self, relation: str, sqls: Iterable[str]) -> str:
        return self.steps.step("values", f"SELECT * FROM {relation} WHERE {' OR '.join(f'{sql} IS NOT NULL' for sql in sqls)}")

    def _projected(self, rows: str) -> tuple[str, list[Value]]:
        columns, values = self._columns(self.row_compiler)
        relation = self.steps.step("projected", f"SELECT {', '.join([f'{TS} AS _time', *self.keys, *columns])} FROM {rows}")
        if is_sparse(self.nodes):
            relation = self._with_values(relation, [f"o{number}" for number in range(len(values))])
        return relation, values

    def _grouped(self, rows: str) -> tuple[str, list[Value]]:
        """Compute the columns of each group: of all rows, of devices, of windows, or of both."""
        columns, values = self._columns(self._compiler(self._group_leaf))
        having = self.expanded.having
        where = "true" if having is None else self._compiler(self._having_leaf).condition(having)
        names = [*self.keys, *(EDGES if self.windowed else ())]
        groups = self.steps.groups(self._members(rows), names, self.aggregates)
        return self.steps.step("aggregated", f"SELECT {', '.join([*names, *columns])} FROM {groups} WHERE {where}"), values

    def _columns(self, compiler: Compiler) -> tuple[list[str], list[Value]]:
        """Return the columns `o…` of the select list and `k…` of ORDER BY, and the values of the former."""
        values = [compiler.value(node) for node in self.nodes]
        columns = [
            f"{self._without_absent(node, value)} AS o{at}" for at, (node, value) in enumerate(zip(self.nodes, values, strict=True))
        ]
        return columns + [f"{_sort_value(compiler.value(key))} AS k{at}" for at, key in self._sort_keys()], values

    def _without_absent(self, node: Expression, value: Value) -> str:
        """Return a value, NULL for devices that have no series of it."""
        names = sorted(self.expanded.absent.get(node, ()))
        return f"CASE WHEN _device NOT IN ({', '.join(map(quoted, names))}) THEN {value.sql} END" if names else value.sql

    def _members(self, rows: str) -> str:
        """Return rows with the keys of their groups; groups without rows have one row of NULLs, but for windows made of rows."""
        grouping, devices = self.grouping, self.expanded.rows.devices
        if grouping.rows is not None:
            control = None if self.expanded.control is None else self.row_compiler.value(self.expanded.control)
            windows = RowWindows(self.steps, self.compiler.precision, Partition(tuple(self.keys), (TS,)), control)
            return windows.assigned(grouping.rows, rows)
        keys, conditions = [], []
        if devices is not None:
            keys.append(self._table("devices", {"_device": pa.array(devices, pa.string())}))
            conditions.append("r._device = k._device")
        if grouping.time is not None:
            keys.append(self._time_windows(grouping.time))
            conditions.append(f"r.{TS} BETWEEN k.{START} AND k.{END}")
        if not keys:
            return rows
        joined = f"(SELECT * FROM {' CROSS JOIN '.join(keys)}) k LEFT JOIN {rows} r ON {' AND '.join(conditions)}"
        return f"(SELECT k.*, r.*{' EXCLUDE (_device)' if devices is not None else ''} FROM {joined})"

    def _table(self, label: str, columns: dict[str, pa.Array]) -> str:
        return self.steps.load(label, "SELECT * FROM values_in", values_in=pa.table(columns))

    def _time_windows(self, clause: GroupByTime) -> str:
        columns = list(zip(*windows_of(clause, self.row_compiler), strict=True)) or [()] * len(EDGES)
        return self._table("windows", {name: pa.array(ticks, pa.int64()) for name, ticks in zip(EDGES, columns, strict=True)})

    def _fixed_outputs(self) -> list[Output]:
        """Return the columns before those of the select list: time, device, end of the window."""
        outputs = [Output("_time", TIME_NAME, TIMESTAMP)] if self.shows_time else []
        if self.expanded.tags is not None:
            tags = self.expanded.tags
            outputs += [Output(column, key, VARCHAR) for key, column in zip(tags.keys, tags.columns, strict=True)]
        elif self.keys:
            outputs.append(Output("_device", DEVICE_NAME, VARCHAR))
        ends = [item for item in self.expanded.items if item.expression == ColumnRef(END_TIME)][:1]
        return outputs + [Output("_end", item.alias or END_TIME, TIMESTAMP) for item in ends]

    def _filled(self, relation: str, outputs: Sequence[Output], order: Sequence[str]) -> str:
        """Compute FILL over the rows in the order of the result."""
        fill = self.query.fill
        if fill is None:
            return relation
        if not self.shows_time:
            raise unsupported("FILL of a result without times")
        rows, clock = Partition((), tuple(order)), Clock(self.compiler.timezone, self.compiler.precision)
        columns = [f"{filled(fill, output.column, output.type, rows, clock)} AS {output.column}" for output in outputs]
        return self.steps.step("filled", f"SELECT * REPLACE ({', '.join(columns)}) FROM {relation}")

    def _sort_keys(self) -> list[tuple[int, Expression]]:
        """Return the expressions of ORDER BY, other than time and device, with their positions."""
        keys = [(number, order.key) for number, order in enumerate(self.expanded.orders)]
        return [(number, key) for number, key in keys if not self._fixed_key(key)]

    def _fixed_key(self, key: Expression) -> str:
        """Return the column of `time` or `device` in ORDER BY, empty for other keys."""
        if isinstance(key, ColumnRef):
            if is_time(key):
                return "_time"
            if key.name.lower() == "device" and self.keys:
                return "_device"
        return ""

    def _order(self) -> list[str]:
        """Return the terms of ORDER BY of the result, none for one row."""
        orders = [(self._fixed_key(order.key) or f"k{number}", order) for number, order in enumerate(self.expanded.orders)]
        terms = [
            order_term(column, descending=order.descending, nulls_first=bool(order.nulls_first))
            for column, order in orders
            if self.shows_time or column != "_time"
        ]
        # Windows that are cut at the range's end may show the same time, and follow its direction.
        descends = any(order.descending for column, order in orders if column == "_time")
        times = (["_time"] if self.shows_time else []) + ([f"{START} {'DESC' if descends else 'ASC'}"] if self.windowed else [])
        return terms + (self.keys + times if self.expanded.tags is None else times + self.keys)

    def _sorted(self, relation: str, outputs: tuple[Output, ...], order: Sequence[str]) -> Answer:
        tags, query = self.expanded.tags, self.query
        # With GROUP BY TAGS, the limits count windows.
        size = 1 if tags is None else len(tags.values)
        limit, offset = (None if number is None else number * size for number in (query.limit, query.offset))
        result = self.steps.sorted(relation, order, limit, offset, *([] if tags is None else tags.columns.values()))
        fixed = [number for number, output in enumerate(outputs) if output.column in ("_time", "_device")]
        ordered = tuple(fixed) if not self._sort_keys() else ()
        return Answer(result, outputs, self.compiler.precision, self.compiler.timezone, ordered, self._behind(), self.windowed)

    def _behind(self) -> Members:
        rows = self.expanded.rows
        tests = ["m._device = (SELECT _device FROM {row})"] if self.keys else []
        if self.windowed:
            tests.append(f"m.{TS} BETWEEN (SELECT {START} FROM {{row}}) AND (SELECT {END} FROM {{row}})")
        elif self.shows_time:
            tests.append(f"m.{TS} = (SELECT _time FROM {{row}})")
        keys = [(TIME_NAME, TS, TIMESTAMP), *((DEVICE_NAME, key, VARCHAR) for key in self.keys)]
        columns = [(name, column.sql, column.type) for name, column in rows.columns.items()]
        return Members(rows.relation, (*keys, *columns), tuple(tests))


def _sort_value(value: Value) -> str:
    """Return a sort key as SQL. A FLOAT or DOUBLE has its angle too, which orders -0.0 before 0.0."""
    if not value.is_kind(*FLOATS):
        return value.sql
    return f"(CASE WHEN {value.sql} IS NOT NULL THEN struct_pack(x := {value.sql}, angle := atan2({value.sql}, -1)) END)"
