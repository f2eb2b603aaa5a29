"""What of a query rests on user code, which `headrace verify` cannot compute a second time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.errors import NotSupportedError
from headrace.model.expressions import Star
from headrace.model.functions import called_functions
from headrace.model.queries import Query


@dataclass(frozen=True, slots=True)
class CheckableQuery:
    """A query without the columns that rest on user code.

    Attributes:
        query: The query to verify.
        omitted: The numbers of the other columns, among all of the result.
        remark: Says which columns these are; empty if there are none.
    """

    query: Query
    omitted: tuple[int, ...] = ()
    remark: str = ""

    def rows(self, result: pa.Table) -> pa.Table:
        """Return the columns of the full result that are to be verified."""
        kept = [number for number in range(result.num_columns) if number not in self.omitted]
        return result.select(kept) if self.omitted else result


def checkable(query: Query, functions: Collection[str], columns: int) -> CheckableQuery:
    """Return what of a query can be verified.

    Args:
        query: A query.
        functions: The names of users' functions.
        columns: The number of columns of its result.

    Raises:
        NotSupportedError: Which rows the result has rests on user code, or all of its values do.
    """
    called = sorted(set(called_functions(query)).intersection(functions))
    if not called:
        return CheckableQuery(query)
    items = [item for item in query.items if not set(called_functions(item)).intersection(functions)]
    reduced = replace(query, items=tuple(items))
    elsewhere = sorted(set(called_functions(reduced)).intersection(functions))
    if elsewhere or not items:
        names = ", ".join(elsewhere or called)
        raise NotSupportedError(
            f"verify cannot check a result that rests on user code: {names}", hint="leave the function out to verify the rest"
        )
    omitted = omitted_columns(query, items, columns)
    remark = f"not compared: {len(omitted)} of {columns} columns, which rest on user code ({', '.join(called)})"
    return CheckableQuery(reduced, omitted, remark)


def omitted_columns(query: Query, kept: Collection[object], columns: int) -> tuple[int, ...]:
    """Return the numbers of the result columns of the items that are not kept; `*` has as many columns as the others leave."""
    stars = sum(isinstance(item.expression, Star) for item in query.items)
    width = (columns - (len(query.items) - stars)) // stars if stars else 1
    omitted, number = [], 0
    for item in query.items:
        if item not in kept:
            omitted.append(number)
        number += width if isinstance(item.expression, Star) else 1
    return tuple(omitted)
