"""The statements of a client: results that wait to be fetched, and prepared statements."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from headrace.doors.flight.limits import MAX_WAITING_BYTES, PARAMETER_BYTES
from headrace.doors.gate import DoorConnection
from headrace.errors import LimitError, NotFoundError
from headrace.runtime.budget import Budget
from headrace.service.results import Result
from headrace.service.statement_kinds import only_reads
from headrace.sql import parse
from headrace.sql.parameters import Template, render_many, split_template

MAX_WAITING: Final = 64
"""Results of a connection that may wait to be fetched; the oldest is dropped for another."""
MAX_PREPARED: Final = 1024
NO_ROWS: Final = pa.table({})
Parameters = Sequence[Sequence[Any]]


@dataclass
class Prepared:
    """A prepared statement.

    Attributes:
        template: The statement, split at its parameters.
        reads: Whether it returns rows and changes nothing.
        result: The handle of the rows that a statement without parameters returned when its columns were learned.
        parameters: The values to run it with: a row for each execution.
        text_bytes: What the statement takes of the server.
        parameter_bytes: What the parameters take.
    """

    template: Template
    reads: bool
    result: bytes | None = None
    parameters: Parameters | None = None
    text_bytes: int = 0
    parameter_bytes: int = 0


def rows_of(result: Result) -> pa.Table:
    """Return the rows of a result; a table without columns if the statement returned none."""
    return NO_ROWS if result.table is None else result.table


def size_of(table: pa.Table) -> int:
    """Return what rows that wait count as, which is never more than there is."""
    return min(int(table.nbytes), MAX_WAITING_BYTES)


def parameter_rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Return rows of parameters as Python values."""
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@dataclass
class ClientStatements:
    """The statements of one connection. Thread-safe."""

    connection: DoorConnection
    memory: Budget
    """What results that wait, prepared statements and their parameters take of the server."""
    _waiting: OrderedDict[bytes, pa.Table] = field(default_factory=OrderedDict)
    _prepared: dict[bytes, Prepared] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, sql: str) -> tuple[bytes, pa.Table]:
        """Run a statement; return the handle by which its rows are fetched, and the rows."""
        return self._wait(rows_of(self.connection.execute(sql)))

    def take(self, handle: bytes) -> pa.Table:
        """Return the rows that wait under a handle, once.

        Raises:
            NotFoundError: None do.
        """
        with self._lock:
            table = self._pop(handle)
        if table is None:
            raise NotFoundError("there is no such result, or it was fetched before", hint="execute the statement again")
        return table

    def drop(self, handle: bytes) -> bool:
        """Drop rows that wait; return whether they did."""
        with self._lock:
            return self._pop(handle) is not None

    def prepare(self, sql: str) -> tuple[bytes, Prepared, pa.Schema]:
        """Prepare a statement; return its handle, itself and its columns, of which only statements that read have some.

        The columns are learned by running it. What has parameters is run with NULL for each.
        """
        template = split_template(sql, self.connection.session.dialect)
        sample = template.render([None] * len(template.spans))
        prepared = Prepared(template, only_reads(parse(sample, self.connection.session.dialect)))
        schema = NO_ROWS.schema
        if prepared.reads:
            result = self.connection.execute(sample)
            schema = rows_of(result).schema
            prepared.result = None if template.spans else self._wait(rows_of(result))[0]
        handle = secrets.token_bytes(16)
        with self._lock:
            if len(self._prepared) >= MAX_PREPARED:
                raise LimitError(f"the connection has {MAX_PREPARED} prepared statements", hint="close those that are not used")
            prepared.text_bytes = self._hold(len(sql.encode()))
            self._prepared[handle] = prepared
        return handle, prepared, schema

    def prepared(self, handle: bytes) -> Prepared:
        """Return a prepared statement; raise `NotFoundError` if there is none under the handle."""
        try:
            return self._prepared[handle]
        except KeyError:
            raise NotFoundError("there is no such prepared statement", hint="prepare it again") from None

    def unprepare(self, handle: bytes) -> None:
        """Forget a prepared statement. Idempotent."""
        prepared = self._prepared.pop(handle, None)
        if prepared is not None:
            self.memory.release(self.connection.user, prepared.text_bytes + prepared.parameter_bytes)
            if prepared.result is not None:
                self.drop(prepared.result)

    def bind(self, handle: bytes, batches: Iterator[pa.RecordBatch]) -> None:
        """Keep parameters for the next execution of a prepared statement, in place of those from before."""
        prepared, received = self.prepared(handle), list(batches)
        size = sum(max(batch.nbytes, PARAMETER_BYTES * batch.num_rows * batch.num_columns) for batch in received)
        with self._lock:
            self.memory.release(self.connection.user, prepared.parameter_bytes)
            prepared.parameters, prepared.parameter_bytes = None, 0
            prepared.parameter_bytes = self._hold(size)
        prepared.parameters = parameter_rows(iter(received))

    def _hold(self, size: int) -> int:
        """Reserve memory, and return how much."""
        if not self.memory.try_reserve(self.connection.user, size):
            raise LimitError("too many statements are prepared", hint="close those that are not used")
        return size

    def run_prepared(self, handle: bytes) -> tuple[bytes, pa.Table]:
        """Run a prepared statement with the parameters that were bound last; return as `run` does."""
        prepared = self.prepared(handle)
        earlier, prepared.result = prepared.result, None
        with self._lock:
            table = None if earlier is None else self._waiting.get(earlier)
        if earlier is not None and table is not None:
            return earlier, table
        row = prepared.parameters[0] if prepared.parameters else ()
        return self._wait(rows_of(self.connection.execute(prepared.template.render(row))))

    def update_prepared(self, handle: bytes, rows: Parameters) -> int:
        """Run a prepared statement once for each row of parameters; return the number of rows that it changed."""
        prepared = self.prepared(handle)
        rows = rows or prepared.parameters or [()]
        together = render_many(prepared.template.sql, rows, prepared.template.dialect) if len(rows) > 1 else None
        texts = [together] if together is not None else [prepared.template.render(row, number) for number, row in enumerate(rows)]
        affected = [self.connection.execute(text).affected for text in texts]
        return sum(affected) if min(affected) >= 0 else -1

    def _wait(self, table: pa.Table) -> tuple[bytes, pa.Table]:
        """Have rows wait; drop the oldest ones of the connection if there are too many."""
        handle = secrets.token_bytes(16)
        with self._lock:
            while len(self._waiting) >= MAX_WAITING:
                self._pop(next(iter(self._waiting)))
            while not self.memory.try_reserve(self.connection.user, size_of(table)):
                if not self._waiting:
                    raise LimitError("too many results wait to be fetched", hint="fetch them, or close the connections that do not")
                self._pop(next(iter(self._waiting)))
            self._waiting[handle] = table
        return handle, table

    def _pop(self, handle: bytes) -> pa.Table | None:
        table = self._waiting.pop(handle, None)
        if table is not None:
            self.memory.release(self.connection.user, size_of(table))
        return table

    def close(self) -> None:
        """Drop all rows that wait, and all prepared statements."""
        for handle in list(self._prepared):
            self.unprepare(handle)
        with self._lock:
            for handle in list(self._waiting):
                self._pop(handle)
