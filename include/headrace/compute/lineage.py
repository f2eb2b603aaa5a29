"""Lineage of a plan's columns: walks the bound expressions from the outputs to the stored columns that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.compute.evaluation.interp import POINT
from headrace.compute.nodes import Column, Node, Operation, Over, Places, PythonCall, SparkSql, columns_of
from headrace.compute.plan import TS, WEND, WSTART, AnyPlan, JoinSource, Plan, PlanSource, Regrouped, UnionPlan
from headrace.compute.plan_sources import Scan, ScanUnion, SeriesRows
from headrace.compute.types import from_ticks, to_ticks
from headrace.model.lineage import EVERY_DEVICE, NO_INPUTS, ColumnId, Inputs, Transformation, joined, simplified, through
from headrace.model.tables import DEVICE, TableKind
from headrace.model.time import Precision
from headrace.model.trees import TIME_COLUMN

PRECISIONS = tuple(Precision)
BEFORE_CALLS = f"__{TS}"
"""The time of rows in the expressions of series functions."""
CHOICES = ("if", "case")
PICKS = ("min_by", "max_by")
Resolve = Callable[[str], Inputs]
"""Returns what a column of rows is made of."""


@dataclass(frozen=True, slots=True)
class PlanLineage:
    """What the output columns of a plan are made of, by their column in data frames, and what decides about all of its rows."""

    outputs: dict[str, Inputs]
    keys: dict[str, Inputs]
    indirect: Inputs


def plan_lineage(plan: AnyPlan) -> PlanLineage:
    """Return the lineage of a plan, through its sub-queries down to stored columns."""
    if isinstance(plan, UnionPlan):
        return union_lineage(plan)
    return PlanWalk(plan).lineage()


def union_lineage(plan: UnionPlan) -> PlanLineage:
    left, right = plan_lineage(plan.left), plan_lineage(plan.right)
    names = [(plan.left.outputs[at].column, plan.right.outputs[at].column) for at in range(len(plan.outputs))]
    sides = [joined(left.outputs[one], right.outputs[other]) for one, other in names]
    outputs = {output.column: inputs for output, inputs in zip(plan.outputs, sides, strict=True)}
    return PlanLineage(outputs, {}, joined(left.indirect, right.indirect))


def expression_inputs(node: Node, resolve: Resolve) -> Inputs:
    """Return what an expression over columns is made of: the columns as they are, values computed of them, or chosen by them."""
    if is_unchanged(node):
        return resolve(next(columns_of(node)))
    direct, conditions, orders = set[str](), set[str](), set[str]()
    sort_columns(node, direct, conditions, orders)
    return joined(
        *(through(resolve(name), Transformation.TRANSFORMATION) for name in sorted(direct)),
        *(through(resolve(name), Transformation.CONDITIONAL) for name in sorted(conditions - direct)),
        *(through(resolve(name), Transformation.SORT) for name in sorted(orders - direct - conditions)),
    )


def is_unchanged(node: Node) -> bool:
    """Return whether an expression is a column, or a stored timestamp in ticks or back."""
    if isinstance(node, Column):
        return True
    if not (isinstance(node, Operation) and len(node.operands) == 1 and isinstance(node.operands[0], Column)):
        return False
    return any(node in (to_ticks(node.operands[0], one), from_ticks(node.operands[0], one)) for one in PRECISIONS)


def sort_columns(node: Node, direct: set[str], conditions: set[str], orders: set[str]) -> None:
    """Sort the columns of an expression: those of its value, those that choose between values, and those that order rows."""
    match node:
        case Column(name=name):
            direct.add(name)
        case Operation(name=name, operands=operands) if name in CHOICES:
            for at, operand in enumerate(operands):
                is_condition = at % 2 == 0 and at < len(operands) - 1
                sort_columns(operand, conditions if is_condition else direct, conditions, orders)
        case Operation(name=name, operands=(value, order)) if name in PICKS:
            sort_columns(value, direct, conditions, orders)
            sort_columns(order, orders, conditions, orders)
        case Over(function=function):
            sort_columns(function, direct, conditions, orders)
        case Operation(operands=parts) | SparkSql(parts=parts) | PythonCall(operands=parts) | Places(nodes=parts):
            for part in parts:
                if isinstance(part, Node):
                    sort_columns(part, direct, conditions, orders)


@dataclass
class SourceWalk:
    """What the columns of a source are made of."""

    source: PlanSource
    indirect: list[Inputs] = field(default_factory=list)

    def resolver(self) -> Resolve:
        """Return what resolves the columns of the source, noting what decides about its rows."""
        match self.source:
            case Scan() as scan:
                known = {*scan.columns, scan.table.series_key}
                way = frozenset((Transformation.IDENTITY,))
                return lambda name: {scan_column(scan, name): way} if name in known else NO_INPUTS
            case ScanUnion() as union:
                return self._union(union)
            case SeriesRows() as rows:
                return lambda name: series_inputs(rows, name)
            case Plan() | UnionPlan() as plan:
                inner = plan_lineage(plan)
                self.indirect.append(inner.indirect)
                return lambda name: inner.outputs.get(name, NO_INPUTS)
            case Regrouped() as regrouped:
                return self._regrouped(regrouped)
            case JoinSource() as join:
                return self._join(join)
        return lambda _: NO_INPUTS

    def _nested(self, source: PlanSource) -> Resolve:
        walk = SourceWalk(source, self.indirect)
        return walk.resolver()

    def _union(self, union: ScanUnion) -> Resolve:
        sides = [
            ({name: node for node, name in columns}, self._nested(scan))
            for scan, columns in zip(union.scans, union.columns, strict=True)
        ]
        return lambda name: joined(*(expression_inputs(nodes[name], resolve) for nodes, resolve in sides if name in nodes))

    def _regrouped(self, regrouped: Regrouped) -> Resolve:
        inner, regrouping = self._nested(regrouped.rows), regrouped.regrouping
        if regrouping.filter is not None:
            self.indirect.append(through(expression_inputs(regrouping.filter, inner), Transformation.FILTER))
        nodes = {name: node for node, name in regrouping.columns} | {TIME_COLUMN: regrouping.time}
        return lambda name: expression_inputs(nodes[name], inner) if name in nodes else NO_INPUTS

    def _join(self, join: JoinSource) -> Resolve:
        sides = ((join.left_columns, self._nested(join.left)), (join.right_columns, self._nested(join.right)))
        columns = {name: expression_inputs(node, resolve) for pairs, resolve in sides for node, name in pairs}

        def resolve(name: str) -> Inputs:
            return columns.get(name, NO_INPUTS)

        conditions = [] if join.condition is None else [join.condition]
        if join.asof is not None:
            conditions += [node for pair in (*join.asof.keys, join.asof.times) for node in pair]
        self.indirect += [through(expression_inputs(node, resolve), Transformation.JOIN) for node in conditions]
        return resolve


def scan_column(scan: Scan, name: str) -> ColumnId:
    return ColumnId(scan.table.database, scan.table.name, name)


def series_inputs(rows: SeriesRows, name: str) -> Inputs:
    """Return what a column of rows of series is made of: time and device of the tables, or the series that fill it."""
    way = frozenset((Transformation.IDENTITY,))
    only = rows.devices[0] if len(rows.devices) == 1 and not rows.groups else ""
    if name in (TIME_COLUMN, DEVICE):
        keys = {scan: scan.table.timestamp.name if name == TIME_COLUMN else scan.table.series_key for scan in rows.scans}
        return {series_column(scan, key, only): way for scan, key in keys.items()}
    numbers = {column: number for number, (_, column) in enumerate(rows.columns[0])} if rows.columns else {}
    if name not in numbers or not rows.origins:
        return NO_INPUTS
    scans = {scan.table.id: scan for scan in rows.scans}
    origins = rows.origins[numbers[name]]
    return {series_column(scans[one.table], one.column, one.device or only): way for one in origins if one.table in scans}


def series_column(scan: Scan, name: str, device: str) -> ColumnId:
    """Return a column of a device of a tree, or of a table of another language, whose subtables are devices."""
    is_tree = scan.table.kind is TableKind.TREE
    return ColumnId(scan.table.database, scan.table.name, name, (device or EVERY_DEVICE) if is_tree else "")


class PlanWalk:
    """Walks one SELECT."""

    def __init__(self, plan: Plan) -> None:
        """Prepare the walk."""
        self._plan = plan
        self._source = SourceWalk(plan.source)
        self._rows = self._source.resolver()
        self._prepared = {name: self._row_inputs(node) for name, node in prepared_nodes(plan).items()}
        self._derived = derived_nodes(plan)
        self._visited: dict[str, Inputs] = {}

    def lineage(self) -> PlanLineage:
        """Return the lineage of the outputs."""
        plan = self._plan
        outputs = {output.column: simplified(self._inputs(output.node)) for output in (*plan.outputs, *plan.hidden)}
        keys = {key.column: simplified(self._row_inputs(key.node)) for key in plan.keys}
        sorts = [outputs[sort.column] for sort in plan.order.sorts] if plan.order.is_limited else []
        parts = [*self._source.indirect, *self._indirect(), *(through(own, Transformation.SORT) for own in sorts)]
        return PlanLineage(outputs, keys, only_indirect(joined(*parts)))

    def _row_inputs(self, node: Node) -> Inputs:
        """Return what an expression over the source's rows is made of."""
        return expression_inputs(node, self._rows)

    def _inputs(self, node: Node) -> Inputs:
        """Return what an expression over the columns of the last step is made of."""
        return expression_inputs(node, self._resolve)

    def _resolve(self, name: str) -> Inputs:
        """Return what a column is made of in the data frames of any step. A column that refers to itself adds nothing."""
        if name.startswith("\0"):  # means the present, or for what orders rows
            return NO_INPUTS
        if name not in self._visited:
            self._visited[name] = NO_INPUTS
            self._visited[name] = self._defined(name)
        return self._visited[name]

    def _defined(self, name: str) -> Inputs:
        if name in self._derived:
            nodes, way = self._derived[name]
            return through(joined(*map(self._inputs, nodes)), way)
        return self._prepared[name] if name in self._prepared else self._rows(name)

    def _indirect(self) -> Iterator[Inputs]:
        """Yield what decides about rows, groups and windows."""
        plan, having = self._plan, self._plan.groups.having
        if plan.filter is not None:
            yield through(self._row_inputs(plan.filter), Transformation.FILTER)
        if having is not None:
            yield through(self._inputs(having), Transformation.FILTER)
        yield from (through(self._row_inputs(key.node), Transformation.GROUP_BY) for key in plan.keys if not key.implied)
        yield from (through(self._row_inputs(node), Transformation.WINDOW) for node in window_nodes(plan))


def prepared_nodes(plan: Plan) -> dict[str, Node]:
    """Return the columns of prepared rows, which are expressions over the source's; a query without groups has few."""
    times = {} if plan.identity.time is None else {BEFORE_CALLS: plan.identity.time}
    if not plan.aggregated and plan.interp is None:
        return times
    own = {} if plan.window is None else plan.window.row_columns
    columns = {**{key.column: key.node for key in plan.keys}, **{one.column: one.node for one in plan.arguments}}
    return {**times, **plan.identity.columns, **own, **columns}


def derived_nodes(plan: Plan) -> dict[str, tuple[tuple[Node, ...], Transformation]]:
    """Return the columns of later steps: the expressions that they are made of, and how these are changed beyond that."""
    computed, aggregated = Transformation.TRANSFORMATION, Transformation.AGGREGATION
    derived: dict[str, tuple[tuple[Node, ...], Transformation]] = {}
    if plan.identity.time is not None and (plan.window is not None or plan.interp is not None):
        derived |= {name: ((Column(TS),), computed) for name in (WSTART, WEND, POINT)}
    derived |= {partial.column: ((partial.update,), aggregated) for partial in plan.partials}
    derived |= {call.column: ((Column(call.rows),), aggregated) for call in plan.groups.calls}
    if plan.interp is not None:
        derived |= {f"i{argument.column[1:]}": ((Column(argument.column),), computed) for argument in plan.arguments}
    for call in plan.series.calls:
        derived[call.column] = (call.value,), computed
        derived[f"_{call.column}"] = tuple(filter(None, (call.first,))), computed
    return derived | {call.column: (call.inputs, computed) for call in plan.series.arrow_calls}


def window_nodes(plan: Plan) -> list[Node]:
    """Return what windows go by: the time, and the values or conditions of their clause."""
    if plan.window is None:
        return []
    times = [] if plan.identity.time is None else [plan.identity.time]
    return [*times, *plan.window.row_columns.values()]


def only_indirect(inputs: Inputs) -> Inputs:
    """Return inputs without direct ways, such as those of a condition's own steps."""
    kept = {column: frozenset(way for way in ways if not way.is_direct) for column, ways in inputs.items()}
    return {column: ways for column, ways in kept.items() if ways}
