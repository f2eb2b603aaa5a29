"""Recompute queries over trees of devices, from the definition of each clause in IoTDB's documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.model.tree_queries import TreeQuery
from headrace.storage.sandbox import open_database
from headrace.verify.compare import STRICT, Allowance, ResultRow
from headrace.verify.iotdb.expansion import END_TIME
from headrace.verify.iotdb.select import DEVICE_NAME, TIME_NAME, answer_tree
from headrace.verify.iotdb.sources import TreeRows, TreeSource
from headrace.verify.iotdb.spans import within
from headrace.verify.result import Answer, VerificationResult, answer_rows, verify_answer
from headrace.verify.steps import Steps

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TreeRows", "TreeSource", "recompute_tree", "verify_tree", "within"]


def recompute_tree(query: TreeQuery, source: TreeSource) -> tuple[Answer | None, list[ResultRow]]:
    """Recompute a query by `answer_rows`."""
    with open_database() as connection:
        return answer_rows(connection, lambda steps: answer_tree(steps, query, source))


def verify_tree(
    query: TreeQuery, result: Callable[[], pa.Table], source: TreeSource, *, sparse: bool = False
) -> VerificationResult:
    """Recompute a query without INTO over devices and rows, and compare a result with it by `verify_answer`.

    Columns are paired by name: their order has no meaning. See `within` to restrict a query to a range of time. If the result is
    `sparse`, such as one that was written to series, a row without any value may be missing.
    """

    def allowance(_: Steps, answer: Answer, rows: Sequence[ResultRow]) -> Allowance:
        values = [position for position, name in enumerate(answer.names) if name not in (TIME_NAME, DEVICE_NAME, END_TIME)]
        return Allowance(lambda at: all(rows[at][position] is None for position in values)) if sparse else STRICT

    return verify_answer(lambda steps: answer_tree(steps, query, source), result, by_name=True, allowance=allowance)
