"""The rows that FILL adds to a target, computed from the rows of the two windows at the ends of their gap."""

from __future__ import annotations

from typing import Final, TypeVar

import pyarrow as pa

from headrace.compute.frames import Frame
from headrace.compute.nodes import Column, Node
from headrace.compute.types import to_ticks
from headrace.compute.windows.fill import fill_positions, neighbor, to_stored
from headrace.context import Context
from headrace.model.queries import FillMode
from headrace.model.types import TIMESTAMP, TypeKind
from headrace.storage.types import arrow_type
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.gaps import GROUP, Neighborhood
from headrace.streams.sinks.target import TargetTable
from headrace.streams.sinks.target_groups import convert_precision
from headrace.streams.windows.change_batch import Int64s
from headrace.streams.windows.evaluation import evaluate_rows

F = TypeVar("F", bound=Frame)
FROM_BEFORE: Final = (FillMode.PREV, FillMode.LINEAR)
FROM_AFTER: Final = (FillMode.NEXT, FillMode.LINEAR)


class FilledValues:
    """Computes rows for the windows in gaps of one stream's target."""

    def __init__(self, context: Context, plan: StreamPlan, target: TargetTable) -> None:
        assert plan.query.fill is not None
        self.context = context
        self.plan = plan
        self.target = target
        self.fill = plan.query.fill
        pairs = zip(plan.columns, plan.query.outputs, strict=True)
        self.columns = {name: output for name, output in pairs if output.is_filled}

    @property
    def sources(self) -> list[str]:
        """The columns of a gap that the values in it depend on."""
        own = [output.column for output in self.columns.values() if self.fill.mode in FROM_BEFORE]
        return own + [neighbor(output).name for output in self.columns.values() if self.fill.mode in FROM_AFTER]

    def gaps(self, near: Neighborhood, row: Int64s, windows: pa.Table) -> pa.Table:
        """Return gaps between windows that have a row in `windows`, with the values at their ends."""
        own = {output.column: windows[name] for name, output in self.columns.items()}
        others = {neighbor(output).name: windows[name] for name, output in self.columns.items()}
        return near.gaps(row, own | others, {}) if self.fill.mode is FillMode.PREV else near.gaps(row, own, others)

    def rows(self, missing: pa.Table, keys: pa.Table) -> pa.Table:
        """Return rows of the target for windows in gaps. `keys` has the key columns `p*` of each group."""
        query, ticks = self.plan.query, dict[str, Node]()
        columns = {name: keys[name].take(missing[GROUP]) for name in keys.column_names}
        columns |= {name: missing[name] for name in missing.column_names if name != GROUP}
        for output in self.columns.values():
            if output.type.kind is TypeKind.TIMESTAMP:
                for name in (output.column, neighbor(output).name):
                    columns[name] = convert_precision(columns[name], arrow_type(TIMESTAMP, query.precision))
                    ticks[name] = to_ticks(Column(name), query.precision)
        as_ticks = {name: ticks.get(name, Column(name)) for name in columns}

        def fill(rows: F) -> F:
            return to_stored(query, fill_positions(query, self.fill, rows.select(as_ticks)))

        return self.target.to_rows(evaluate_rows(self.context, query, pa.table(columns), fill))
