"""Schema changes of a table's rows: columns are added and retired while others read and write.

Delta Lake drops, renames and widens columns only with features (column mapping, type widening) under which the change feed
cannot be read across the change, or not at all by delta-rs. So columns are added and never removed: one that is dropped stays in
the Delta table, hidden, and is marked there. Every reader and writer allows for columns of which it knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

from headrace.errors import ExistsError, LimitError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.tables import Column, Database, Table
from headrace.storage.delta.commits import commit_properties
from headrace.storage.delta.handles import Handle, Handles, stored_schema
from headrace.storage.delta.writer import Writer
from headrace.storage.types import TYPE_METADATA, field

RETIRED_METADATA: Final = b"headrace.dropped"
Work = Callable[[Handle, DeltaTable], None]


class Evolution:
    """Changes the columns of tables, each in a compare-and-set commit under the table's write lock.

    The lock is required: a running load by Spark would fail at its end if the schema changed meanwhile.
    """

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer

    def add(self, table: Table, database: Database, columns: Sequence[Column]) -> None:
        """Add the columns that the Delta table lacks, in one commit."""
        new_fields = [field(column, database.precision) for column in columns]

        def work(handle: Handle, delta: DeltaTable) -> None:
            missing = missing_fields(stored_schema(delta), new_fields, handle.name)
            if missing:
                delta.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields, commit_properties=commit_properties(None))
                failpoint("storage.columns.added")

        if missing_fields(self._current_schema(table), new_fields, table.name):
            self._commit(table, work)

    def retire(self, table: Table, name: str) -> None:
        """Mark a column as dropped. Its values stay in the files, so the name cannot be used again."""
        self._annotate(table, name, {RETIRED_METADATA.decode(): "true"})

    def retype(self, table: Table, column: Column) -> None:
        """Record a column's declared type, whose stored type is the same as before."""
        self._annotate(table, column.name, {TYPE_METADATA.decode(): str(column.type)})

    def _annotate(self, table: Table, name: str, metadata: dict[str, str]) -> None:
        encoded = {key.encode(): value.encode() for key, value in metadata.items()}

        def work(_: Handle, delta: DeltaTable) -> None:
            recorded = stored_schema(delta).field(name).metadata or {}
            if not encoded.items() <= recorded.items():
                delta.alter.set_column_metadata(name, metadata, commit_properties=commit_properties(None))

        self._commit(table, work)

    def _commit(self, table: Table, work: Work) -> None:
        with self._writer.exclusive(self._writer.lock_name(table), needed=True):
            self._writer.attempts(self._handles.writer(table), work)

    def _current_schema(self, table: Table) -> pa.Schema:
        with self._handles.reader(table).latest() as delta:
            return stored_schema(delta)


def missing_fields(stored: pa.Schema, new_fields: Sequence[pa.Field], owner: str) -> list[pa.Field]:
    """Return the wanted fields that a table lacks.

    Raises:
        TypeMismatchError: A column of the name has another stored type.
        ExistsError: The name is that of a dropped column.
        LimitError: A column's name differs from it in case only.
    """
    by_name = {name.lower(): stored.field(name) for name in stored.names}
    missing = []
    for new in new_fields:
        old = by_name.setdefault(new.name.lower(), new)
        if old is new:
            missing.append(new)
        else:
            check_same(old, new, owner)
    return missing


def check_same(old: pa.Field, new: pa.Field, owner: str) -> None:
    """Refuse a column that the Delta table has as something else."""
    if old.name != new.name:
        raise LimitError(
            f"{owner} cannot have columns {old.name} and {new.name}: Delta Lake ignores the case of column names",
            hint=f"use another name than {new.name}",
        )
    if RETIRED_METADATA in (old.metadata or {}):
        raise ExistsError(
            f"{owner} had a column {new.name} that was dropped, and its Delta table keeps the old values",
            hint="use another name",
        )
    if old.type != new.type:
        raise TypeMismatchError(
            f"the Delta table of {owner} has a column {new.name} of type {old.type}, not {new.type}",
            hint="add it with the type that it has, or use another name",
        )
