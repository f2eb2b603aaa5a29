"""The handles of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.errors import NotSupportedError
from headrace.model.tables import Table, TableId
from headrace.storage.delta.external_handles import ExternalHandle
from headrace.storage.delta.handles import Handle, cached_rows, rows_uri, tags_uri


class Handles:
    """The handles of one process: per table a reader and a writer of its rows, and one for its tags."""

    def __init__(self, uri: str, check_location: Callable[[str], object] = lambda _: None) -> None:
        """Keep handles of the tables below a URI; `check_location` raises an error for external ones that may not be read."""
        self.uri = uri.rstrip("/")
        self._check_location = check_location
        self._open: dict[tuple[str, str], Handle] = {}
        self._external_tables: dict[TableId, tuple[Table, Handle]] = {}
        self._mutex = threading.Lock()
        self._written = cached_rows()
        self._keys = cached_rows()

    def reader(self, table: Table) -> Handle:
        """Return the handle for reading a table's rows."""
        if table.external is not None:
            return self._external(table)
        return self._handle("reader", rows_uri(self.uri, table), f"table {table.database}.{table.name}")

    def writer(self, table: Table) -> Handle:
        """Return the handle for writing a table's rows; raise `NotSupportedError` for an external table."""
        if table.external is not None:
            raise NotSupportedError(
                f"{table.database}.{table.name} is an external table, which is only read",
                hint=f"write to {table.external.location} by its own writer",
            )
        return self._handle("writer", rows_uri(self.uri, table), f"table {table.database}.{table.name}")

    def tags(self, table: Table) -> Handle:
        """Return the handle of a supertable's tags."""
        return self._handle("tags", tags_uri(self.uri, table), f"tags of {table.database}.{table.name}")

    def forget(self, table: Table) -> None:
        """Close the handles of a table."""
        with self._mutex:
            for key in [key for key in self._open if key[1] in (rows_uri(self.uri, table), tags_uri(self.uri, table))]:
                del self._open[key]
            self._external_tables.pop(table.id, None)

    def _external(self, table: Table) -> Handle:
        """Return the handle of an external table, which depends on what it was created with."""
        assert table.external is not None
        with self._mutex:
            kept = self._external_tables.get(table.id)
            if kept is None or kept[0] != table:
                self._check_location(table.external.location)
                handle = ExternalHandle(rows_uri(self.uri, table), f"table {table.database}.{table.name}", table, table.external)
                kept = self._external_tables[table.id] = (table, handle)
            return kept[1]

    def _handle(self, purpose: str, uri: str, name: str) -> Handle:
        with self._mutex:
            return self._open.setdefault((purpose, uri), Handle(uri, name, self._written, self._keys))
