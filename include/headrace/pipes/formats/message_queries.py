"""Queries of DuckDB over messages, by which formats read many of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headrace.storage.sandbox import open_database


class MessageQueries:
    """A database that is handed the messages for each query."""

    def __init__(self) -> None:
        """Open the database."""
        self._connection = open_database()

    def select(
        self, query: str, messages: pa.Table, parameters: Mapping[str, Any] | None = None, name: str = "messages"
    ) -> pa.Table:
        """Return what a query selects from messages, which it calls `name`."""
        self._connection.register(name, messages)
        try:
            return self._connection.sql(query, params=parameters).to_arrow_table()
        finally:
            self._connection.unregister(name)
