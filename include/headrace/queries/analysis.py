"""What a query did when it ran: who computed it, what was read, and the operators of Spark with their rows and times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

from headrace.compute import AnyPlan
from headrace.context import Context
from headrace.queries.evaluation import Execution, evaluate_query

ADAPTIVE: Final = "AdaptiveSparkPlan"
STAGE: Final = "QueryStage"
HIDDEN: Final = ("AQEShuffleRead", "ColumnarToRow", "InputAdapter", "Project", "ReusedExchange", "WholeStageCodegen")
"""Operators that say nothing about rows, or belong to the one below them."""
ROWS: Final = ("numOutputRows", "shuffleRecordsWritten")
TIMES: Final = ("scanTime", "aggTime", "sortTime", "buildTime", "pythonTotalTime")
FILES, BYTES = "numFiles", "filesSize"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of Spark: its depth below the result, its name, and the metrics that it has."""

    depth: int
    name: str
    metrics: dict[str, int]

    @property
    def rows(self) -> int | None:
        """The rows that it returned."""
        return next((self.metrics[name] for name in ROWS if name in self.metrics), None)

    @property
    def milliseconds(self) -> int | None:
        """The time that its tasks took, together."""
        times = [self.metrics[name] for name in TIMES if name in self.metrics]
        return sum(times) if times else None


@dataclass(frozen=True, slots=True)
class QueryAnalysis:
    """A query that has run. Operators are those of Spark, from the result down, none if this process evaluated it."""

    rows: int
    seconds: float
    rows_read: int = 0
    operators: tuple[Operator, ...] = ()
    kernel_tasks: int = 0
    kernel_files: int = 0

    @property
    def scans(self) -> list[Operator]:
        """The operators that read files."""
        return [operator for operator in self.operators if FILES in operator.metrics]

    def without_reading(self) -> QueryAnalysis:
        """Return it without the numbers of what was read, which include rows that are hidden from a user."""
        operators = tuple(replace(operator, metrics={}) for operator in self.operators)
        return replace(self, rows_read=0, operators=operators, kernel_tasks=0)


def analyze_query(plan: AnyPlan, context: Context) -> QueryAnalysis:
    """Run a bound query, discard its result, and return what it did. Raises what `evaluate_query` does."""
    execution, started = Execution(), perf_counter()
    result = evaluate_query(plan, context, execution)
    seconds = perf_counter() - started
    operators = () if execution.frame is None else tuple(walk(execution.frame._jdf.queryExecution().executedPlan(), 0))
    files = {part.path for share in execution.shares for part in share.parts}
    return QueryAnalysis(result.num_rows, seconds, execution.rows_read, operators, len(execution.shares), len(files))


def walk(node: Any, depth: int) -> Iterator[Operator]:
    """Yield an operator and those below it. Adaptive execution hides its final plan in nodes of its own."""
    name: str = node.nodeName().partition(" ")[0]
    if name == ADAPTIVE:
        yield from walk(node.executedPlan(), depth)
    elif name.endswith(STAGE):
        yield from walk(node.plan(), depth)
    else:
        is_hidden = name in HIDDEN
        if not is_hidden:
            yield Operator(depth, node.nodeName().strip(), metrics_of(node))
        for child in items(node.children()):
            yield from walk(child, depth if is_hidden else depth + 1)


def metrics_of(node: Any) -> dict[str, int]:
    shown = (*ROWS, *TIMES, FILES, BYTES)
    metrics = {pair._1(): pair._2().value() for pair in items(node.metrics())}
    return {name: max(0, value) for name, value in metrics.items() if name in shown}


def items(collection: Any) -> Iterator[Any]:
    """Yield the items of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()
