"""Queries of an IoTDB server, whose results are Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.blocks import BlockReader
from headrace.pipes.iotdb.connection import Connection
from headrace.pipes.iotdb.statuses import check_status

FETCH_ROWS: Final = 20_000
TIME: Final = "Time"
QUERY_TIMEOUT_MS: Final = 600_000


def query(connection: Connection, sql: str, *, fetch_rows: int = FETCH_ROWS) -> pa.Table:
    """Return the whole result of a query; `Time` is its first column if it has times. It has no columns if it has no rows."""
    tables = list(query_batches(connection, sql, fetch_rows=fetch_rows))
    return pa.concat_tables(tables) if tables else pa.table({})


def query_batches(connection: Connection, sql: str, *, fetch_rows: int = FETCH_ROWS) -> Iterator[pa.Table]:
    """Yield the result of a query as the server hands it out, so that it need not fit into memory.

    Raises:
        OperationalError: The connection broke, or the server failed.
        TerminalError: The query is invalid, or the user may not read.
    """
    request = messages.Statement(
        sessionId=connection.session,
        statement=sql,
        statementId=connection.open_statement(),
        fetchSize=fetch_rows,
        timeout=QUERY_TIMEOUT_MS,
    )
    result: messages.StatementAnswer = connection.call("executeQueryStatementV2", request)
    check_status(connection.node, "answer a query", result.status)
    if result.queryResult is None:
        return
    yield from (read_block(block, result) for block in result.queryResult if block)
    more = result.moreData
    while more:
        fetched = fetch(connection, request, result)
        yield from (read_block(block, result) for block in fetched.queryResult or () if block)
        more = fetched.moreData
    close = messages.CloseOperation(sessionId=connection.session, queryId=result.queryId, statementId=request.statementId)
    connection.call("closeOperation", close)


def fetch(connection: Connection, request: messages.Statement, result: messages.StatementAnswer) -> messages.FetchAnswer:
    """Return the next blocks of a result."""
    message = messages.Fetch(
        sessionId=connection.session,
        statement=request.statement,
        fetchSize=request.fetchSize,
        queryId=result.queryId,
        isAlign=True,
        timeout=QUERY_TIMEOUT_MS,
        statementId=request.statementId,
    )
    fetched: messages.FetchAnswer = connection.call("fetchResultsV2", message)
    check_status(connection.node, "answer a query", fetched.status)
    return fetched


def read_block(block: bytes, result: messages.StatementAnswer) -> pa.Table:
    """Return the rows of a block, with the columns of the result in order."""
    times, columns = BlockReader(block).read()
    positions = result.columnNameIndexMap or {name: number for number, name in enumerate(result.columns)}
    arrays = [read_texts(columns[positions[name]], type_) for name, type_ in zip(result.columns, result.dataTypeList, strict=True)]
    names = list(result.columns)
    if not result.ignoreTimeStamp:
        arrays, names = [times, *arrays], [TIME, *names]
    return pa.Table.from_arrays(arrays, names=names)


def read_texts(values: pa.Array, type_: str) -> pa.Array:
    """Return texts as such: a block does not tell them from other bytes."""
    return values.cast(pa.string()) if pa.types.is_binary(values.type) and type_ != "BLOB" else values
