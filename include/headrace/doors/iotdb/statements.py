"""Calls that run statements and read their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.doors.iotdb.results import ResultReader
from headrace.doors.iotdb.statuses import attempt, combined, success
from headrace.errors import Error, NotSupportedError, ProgrammingError
from headrace.model.paths import ROOT, parse_path, split_path
from headrace.model.time import Precision
from headrace.pipes.iotdb import messages
from headrace.sql.iotdb.status import SEMANTIC_ERROR
from headrace.storage.values.scalars import tick_range

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client
    from headrace.service.results import Result

AGGREGATIONS: Final = (
    "count",
    "avg",
    "sum",
    "first_value",
    "last_value",
    "max_time",
    "min_time",
    "max_value",
    "min_value",
    "extreme",
)
"""Aggregate functions in the order of IoTDB's codes."""
FIRST_TICK, LAST_TICK = tick_range(Precision.MILLISECOND)
WILDCARD_NODE: Final = re.compile(r"[\w*]+")
Execute = Callable[["Client", messages.Statement], messages.Message]


def execute(is_newer: bool) -> Execute:
    """Return the call that runs a statement, and answers with rows in the newer form or the older one."""

    def run(client: Client, request: messages.Statement) -> messages.Message:
        result = client.query(request.statement or "")
        return answer(client, result, request.statementId, request.fetchSize, is_newer=is_newer)

    return run


def answer(
    client: Client, outcome: tuple[Result, frozenset[str]], statement: int | None, fetch_rows: int | None, *, is_newer: bool
) -> messages.StatementAnswer:
    """Return a result with its first rows. The client asks for the others."""
    result, strings = outcome
    if result.rows is None:
        return messages.StatementAnswer(status=success())
    reader = ResultReader(result, strings)
    columns = reader.columns
    message = messages.StatementAnswer(
        status=success(),
        columns=[column.name for column in columns],
        operationType="QUERY",
        ignoreTimeStamp=reader.ignores_time,
        dataTypeList=[column.type for column in columns],
        columnNameIndexMap=reader.indexes,
        aliasColumns=[],
    )
    if is_newer:
        message.queryResult = reader.blocks(fetch_rows)
    else:
        message.queryDataSet = reader.rows(fetch_rows)
    message.moreData = reader.has_more
    message.queryId = client.keep(statement, reader)
    return message


def fetch(is_newer: bool) -> Callable[[Client, messages.Fetch], messages.Message]:
    """Return the call that reads more rows."""

    def run(client: Client, request: messages.Fetch) -> messages.Message:
        client.connection.check()
        reader = client.result(request.queryId)
        if reader is None:
            return messages.FetchAnswer(status=success(), hasResultSet=False, isAlign=True, moreData=False, queryResult=[])
        message = messages.FetchAnswer(status=success(), hasResultSet=True, isAlign=True)
        if is_newer:
            message.queryResult = reader.blocks(request.fetchSize)
        else:
            message.queryDataSet = reader.rows(request.fetchSize)
        message.moreData = reader.has_more
        if not reader.has_more:
            client.drop_result(request.queryId)
        return message

    return run


def execute_batch(client: Client, request: messages.Statements) -> messages.Message:
    """Run statements in order, each whatever becomes of the others."""
    client.connection.check()

    def run(statement: str) -> messages.Status:
        client.execute(statement)
        return success()

    return combined([attempt(partial(run, statement)) for statement in request.statements or ()])


def close_operation(client: Client, request: messages.CloseOperation) -> messages.Message:
    """Forget a result, or all of a statement."""
    if request.queryId is not None:
        client.drop_result(request.queryId)
    elif request.statementId is not None:
        client.drop_statement(request.statementId)
    return success()


def cancel_operation(client: Client, request: messages.CancelOperation) -> messages.Message:
    """Forget a result."""
    client.drop_result(request.queryId)
    return success()


def query(sql_of: Callable[[Any], str], is_newer: bool) -> Callable[[Client, Any], messages.Message]:
    """Return the call that runs the query of a request."""

    def run(client: Client, request: Any) -> messages.Message:
        return answer(client, client.query(sql_of(request)), request.statementId, request.fetchSize, is_newer=is_newer)

    return run


def raw_sql(request: messages.RawQuery) -> str:
    """Return the query of the points of series, from an instant on and before another."""
    return f"select {suffixes(request.paths)} from {ROOT}{time_condition(request.startTime, request.endTime)}"


def last_sql(request: messages.LastQuery) -> str:
    """Return the query of the latest points of series, from an instant on."""
    return f"select last {suffixes(request.paths)} from {ROOT}{time_condition(request.time, None)}"


def device_last_sql(request: messages.DeviceLastQuery) -> str:
    """Return the query of the latest points of series of a device."""
    return f"select last {suffixes([f'{request.deviceId}.{sensor}' for sensor in request.sensors])} from {ROOT}"


def aggregation_sql(request: messages.AggregationQuery) -> str:
    """Return the query that aggregates series, by intervals of time if the request names one."""
    calls = [f"{function_name(code)}({suffix(path)})" for code, path in zip(request.aggregations, request.paths, strict=True)]
    sql, start, end = f"select {', '.join(calls)} from {ROOT}", request.startTime, request.endTime
    if request.interval is not None:
        slide = f", {request.slidingStep}ms" if request.slidingStep is not None else ""
        return f"{sql} group by ([{start or 0}, {end or 0}), {request.interval}ms{slide})"
    return sql + time_condition(start, end)


def time_condition(start: int | None, end: int | None) -> str:
    """Return the condition that time is in a range, without its end. Ends that are earlier or later than any time are left out."""
    conditions = [] if start is None or start < FIRST_TICK else [f"time >= {start}"]
    conditions += [] if end is None or end > LAST_TICK else [f"time < {end}"]
    return f" where {' and '.join(conditions)}" if conditions else ""


def function_name(code: int) -> str:
    if not 0 <= code < len(AGGREGATIONS):
        raise NotSupportedError(f"{code} is no code of an aggregate function", hint=f"the codes 0 to {len(AGGREGATIONS) - 1} are")
    return AGGREGATIONS[code]


def suffixes(paths: Sequence[str]) -> str:
    """Return paths as a list of what is selected from `root`."""
    return ", ".join(map(suffix, paths))


def suffix(path: str) -> str:
    """Return a path below `root`, which is checked since it becomes a part of a statement."""
    nodes = legal_nodes(path)
    return ".".join(nodes[1:])


def legal_nodes(path: str) -> tuple[str, ...]:
    """Return the nodes of a path or pattern.

    Raises:
        ProgrammingError: It is none.
    """
    parsed = parse_path(path) if path else None
    if parsed is not None and len(parsed) > 1:
        return parsed
    nodes = split_path(path)
    if len(nodes) < 2 or ".".join(nodes) != path or nodes[0] != ROOT:
        raise illegal(path)
    for node in nodes[1:]:
        if not node.startswith("`") and not WILDCARD_NODE.fullmatch(node):
            raise illegal(path)
    return nodes


def illegal(path: str) -> Error:
    return ProgrammingError(f"{path} is not a legal path", hint="name paths below root").with_status(SEMANTIC_ERROR)


def fetch_metadata(client: Client, request: messages.FetchMetadata) -> messages.Message:
    """Return the type of a series, or the paths of all that match."""
    if request.type not in ("COLUMN", "ALL_COLUMNS"):
        raise NotSupportedError(f"metadata of type {request.type} is not supported", hint="use SHOW TIMESERIES")
    pattern = ".".join(legal_nodes(request.columnPath or f"{ROOT}.**"))
    rows = list(client.execute(f"show timeseries {pattern}").tuples())
    paths = [str(row[0]) for row in rows]
    kind = str(rows[0][3]) if rows else None
    return messages.MetadataAnswer(status=success(), columnsList=paths, dataType=kind)
