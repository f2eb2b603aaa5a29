"""Answer queries over tables: FROM, joins, sub-queries and unions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.errors import ProgrammingError
from headrace.model.expressions import ColumnRef
from headrace.model.queries import Join, Query, QuerySource, SelectItem, Source, TableSource, Union
from headrace.model.tables import TBNAME
from headrace.model.time import Precision
from headrace.model.types import BIGINT, TIMESTAMP
from headrace.verify.compare import ComparisonMode
from headrace.verify.result import Answer
from headrace.verify.steps import Steps
from headrace.verify.tdengine.conversions import common_type, convert
from headrace.verify.tdengine.decimals import create_decimal_function
from headrace.verify.tdengine.frames import Column, Frame, Lookup, load_table, row_compiler, table_frame
from headrace.verify.tdengine.grouping import ordering_position
from headrace.verify.tdengine.joins import join_frames
from headrace.verify.tdengine.select import Select, order_terms
from headrace.verify.values import Value, unsupported


@dataclass(slots=True)
class Recomputation:
    """Answers queries over stored tables. With `stream`, as a stream would."""

    steps: Steps
    lookup: Lookup
    timezone: str
    stream: bool = False
    loaded: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        create_decimal_function(self.steps.connection)

    def answer(self, query: Query | Union) -> Answer:
        if isinstance(query, Union):
            return self._union(query)
        frame = self._frame(query.source)
        return Select(self.steps, query, frame, row_compiler(frame), self.stream).answer()

    def _frame(self, source: Source | None) -> Frame:
        match source:
            case None:
                return Frame("(SELECT 1 AS nothing)", (), Precision.MILLISECOND, self.timezone)
            case TableSource():
                return self._table(source)
            case QuerySource(query=query, alias=alias):
                return _subquery_frame(self.answer(query), alias)
            case Join():
                return join_frames(self.steps, source, self._frame(source.left), self._frame(source.right))

    def _table(self, source: TableSource) -> Frame:
        name = str(source.name)
        stored = self.lookup(source.name)
        if name not in self.loaded:
            self.loaded[name] = load_table(self.steps, stored)
        relation, subtables = self.loaded[name]
        return table_frame(stored, relation, source.alias, subtables)

    def _union(self, query: Union) -> Answer:
        """Combine both sides by position, converted to common types."""
        left, right = self.answer(query.left), self.answer(query.right)
        if any(output.comparison is not ComparisonMode.EXACT for output in (*left.outputs, *right.outputs)):
            raise unsupported("estimates in a UNION")
        outputs = tuple(
            replace(one, type=common_type([one.type, other.type]) or one.type, column=f"o{number}")
            for number, (one, other) in enumerate(zip(left.outputs, right.outputs, strict=True))
        )
        selects = [
            "SELECT "
            + ", ".join(
                f"{convert(Value(own.column, own.type), output.type or BIGINT)} AS {output.column}"
                for own, output in zip(side.outputs, outputs, strict=True)
            )
            + f" FROM {side.relation}"
            for side in (left, right)
        ]
        combined = self.steps.step("union", f" UNION {'ALL ' if query.all else ''}".join(selects))
        items = [SelectItem(ColumnRef(output.name), output.name) for output in outputs]
        if any(ordering_position(ordering.expression, items) is None for ordering in query.order_by):
            raise ProgrammingError("ORDER BY of a UNION takes names and positions of its columns")
        positions, order = order_terms(query.order_by, items, ())
        if query.limit is not None and not query.order_by:
            raise unsupported("LIMIT of a UNION without ORDER BY")
        relation = self.steps.sorted(combined, order, query.limit, query.offset)
        return Answer(relation, outputs, left.precision, left.timezone, positions)


def _subquery_frame(answer: Answer, alias: str | None) -> Frame:
    """Return the frame of a sub-query; its first timestamp column is its time line."""
    if any(output.comparison is not ComparisonMode.EXACT for output in answer.outputs):
        raise unsupported("an estimate in a sub-query")
    columns = tuple(Column(output.name, alias, output.column, output.type or BIGINT) for output in answer.outputs)
    time = next((column for column in columns if column.type == TIMESTAMP), None)
    tbname = next((column for column in columns if column.name == TBNAME), None)
    # The relation also has the sub-query's own keys and windows, which are not columns of its result.
    relation = f"(SELECT {', '.join(column.sql for column in columns)} FROM {answer.relation})"
    return Frame(relation, columns, answer.precision, answer.timezone, time, tbname)
