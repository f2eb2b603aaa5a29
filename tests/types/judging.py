"""Compares calls of functions with what DuckDB computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import headrace

OUT_OF_RANGE: Final = ("is out of range", "is outside the calendar")


def differences(connection: headrace.Connection, source: str, calls: Sequence[str]) -> list[str]:
    """Return what DuckDB computes differently, of each half of the calls until one is left, which may be out of range."""
    sql = f"select {', '.join(calls)} from {source}"
    try:
        result = connection.verify(sql)
        problem = "" if result.equal else f"{sql}: {result.difference}"
    except (headrace.NotSupportedError, headrace.DataError) as error:
        problem = answer(connection, sql) if isinstance(error, headrace.NotSupportedError) else str(error)
        problem = "" if len(calls) == 1 and any(refusal in problem for refusal in OUT_OF_RANGE) else problem
    if problem and len(calls) > 1:
        half = len(calls) // 2
        return [*differences(connection, source, calls[:half]), *differences(connection, source, calls[half:])]
    return [problem] if problem else []


def answer(connection: headrace.Connection, sql: str) -> str:
    """Return why a query without a judge fails, or nothing."""
    try:
        connection.execute(sql).fetchall()
    except headrace.DataError as error:
        return str(error)
    return ""
