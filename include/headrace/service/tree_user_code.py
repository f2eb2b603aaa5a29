"""What of a query over trees rests on registered functions, which `headrace verify` cannot compute a second time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.languages import added_calls
from headrace.compute.iotdb.binding import bind_tree
from headrace.compute.iotdb.by_tags import TagPlan
from headrace.compute.iotdb.checks import is_aggregated
from headrace.compute.iotdb.derived import has_series_call
from headrace.compute.iotdb.expansion import END_TIME
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import TreePlan
from headrace.errors import NotSupportedError
from headrace.model.expressions import ColumnRef, columns_of
from headrace.model.functions import RegisteredFunction
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery


@dataclass(frozen=True, slots=True)
class CheckableTreeQuery:
    """A query without the columns that rest on registered functions.

    Attributes:
        query: The query to verify.
        kept: For each column of the full result other than time and device, whether it is verified.
        remark: Says which columns are not; empty if all are.
        sparse: Whether the full result may have further rows, in which nothing that is verified has a value.
    """

    query: TreeQuery
    kept: tuple[bool, ...] = ()
    remark: str = ""
    sparse: bool = False

    def rows(self, result: pa.Table) -> pa.Table:
        """Return the columns of the full result that are to be verified, and the rows that have a value in one of them."""
        if all(self.kept):
            return result
        first = result.num_columns - len(self.kept)
        chosen = [first + number for number, is_kept in enumerate(self.kept) if is_kept]
        values = [result.column(number) for number in chosen if result.column_names[number] != END_TIME]
        selected = result.select([*range(first), *chosen])
        return selected.filter(reduce(pc.or_, map(pc.is_valid, values))) if self.sparse else selected


def checkable_tree_query(
    query: TreeQuery, plan: TreePlan | TagPlan, scope: TreeScope, functions: Sequence[RegisteredFunction]
) -> CheckableTreeQuery:
    """Return what of a query can be verified.

    Args:
        query: A query without INTO.
        plan: The bound query.
        scope: What it was bound against.
        functions: All registered functions of the language.

    Raises:
        NotSupportedError: Which rows the result has rests on registered functions, or all of its values do.
    """
    names = added_calls(scope.language, query)
    if not names:
        return CheckableTreeQuery(query)
    basis = f"{kinds_of(names, functions)}: {', '.join(names)}"
    items = tuple(item for item in query.items if not added_calls(scope.language, item))
    reduced = replace(query, items=items)
    if added_calls(scope.language, reduced) or all(item.expression == ColumnRef(END_TIME) for item in items):
        raise not_checkable(f"a result that rests on {basis}")
    if isinstance(plan, TagPlan):
        raise not_checkable(f"GROUP BY TAGS beside {basis}")
    sparse = has_other_rows(query, reduced, plan, scope, basis)
    kept = tuple(not added_calls(scope.language, column.expression) for column in plan.columns)
    remark = f"not compared: {kept.count(False)} of {len(kept)} columns, which rest on {kinds_of(names, functions)} "
    return CheckableTreeQuery(reduced, kept, f"{remark}({', '.join(names)})", sparse)


def has_other_rows(query: TreeQuery, reduced: TreeQuery, plan: TreePlan, scope: TreeScope, basis: str) -> bool:
    """Return whether a query may have rows that it lacks without some of its columns.

    Raises:
        NotSupportedError: Then its other rows would differ as well.
    """
    rest = bind_tree(replace(plan.query, items=reduced.items, into=()), scope)
    if rest is None:
        raise not_checkable(f"a result that rests on {basis}")
    same_devices = rest.devices == plan.devices
    omitted = [item for item in query.items if item not in reduced.items]
    if query.grouping is not None and query.grouping.rows is not None:
        # Windows are made of the rows of all series that the query reads, and of the points of functions.
        adds_points = any(has_series_call(item.expression, scope.language) for item in omitted)
        if adds_points or not same_devices or not paths_of(omitted) <= paths_of(reduced.items):
            raise not_checkable(f"windows that rest on {basis}")
    aggregated = any(is_aggregated(item.expression, scope.language) for item in reduced.items)
    if aggregated and same_devices:
        return False
    if query.fill is not None or query.limit is not None or query.offset is not None:
        raise not_checkable(f"LIMIT, OFFSET and FILL of rows that rest on {basis}")
    return True


def paths_of(items: Iterable[SelectItem]) -> set[str]:
    return {reference.name for item in items for reference in columns_of(item.expression)}


def kinds_of(names: Sequence[str], functions: Sequence[RegisteredFunction]) -> str:
    """Return what registered functions are: user code, or of the function library."""
    artifacts = {function.name: function.artifact for function in functions}
    kinds = {"the function library" if artifacts.get(name) is None else "user code" for name in names}
    return " and ".join(sorted(kinds, reverse=True))


def not_checkable(what: str) -> NotSupportedError:
    return NotSupportedError(f"verify cannot check {what}", hint="leave it out to verify the rest")
