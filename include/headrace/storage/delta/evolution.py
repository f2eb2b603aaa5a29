"""Schema changes of a table's rows: columns are added, renamed and retired while others read and write.

Delta Lake drops, renames and widens columns only with features (column mapping, type widening) under which the change feed
cannot be read across the change, or not at all by delta-rs. So columns are added and never removed: one that is dropped stays in
the Delta table, hidden, and is marked there. One that is renamed is dropped too, after its values were copied into a new column.
Every reader and writer allows for columns of which it knows nothing, and a writer may not write to a column that is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

from headrace.errors import ExistsError, LimitError, TerminalError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.tables import Column, Database, Table
from headrace.storage.delta.commits import commit_properties
from headrace.storage.delta.copying import ColumnCopy
from headrace.storage.delta.handles import Handle, stored_schema
from headrace.storage.delta.retirement import RENAMED_FROM, RETIRED, TRUE, is_retired
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.writer import Writer
from headrace.storage.types import TYPE_METADATA, field

Work = Callable[[Handle, DeltaTable], None]
Record = Callable[[], None]
RETIREMENT: Final = {RETIRED.decode(): TRUE.decode()}


class Evolution:
    """Changes the columns of tables, each in a compare-and-set commit under the table's write lock.

    The lock is required: a running load by Spark would fail at its end if the schema changed meanwhile.
    """

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer

    def add(self, table: Table, database: Database, columns: Sequence[Column]) -> None:
        """Add the columns that a table lacks; idempotent. Readers and writers that do not know them ignore them, or write NULL.

        Raises:
            TypeMismatchError: A column of that name has another type.
            ExistsError: A column of that name was dropped.
            TransientError: The table is being loaded.
        """
        new_fields = [field(column, database.precision) for column in columns]

        def work(handle: Handle, delta: DeltaTable) -> None:
            missing = missing_fields(stored_schema(delta), new_fields, handle.name)
            if missing:
                delta.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields, commit_properties=commit_properties(None))
                failpoint("storage.columns.added")

        if missing_fields(self._current_schema(table), new_fields, table.name):
            self._commit(table, work)

    def add_new(self, table: Table, database: Database, columns: Sequence[Column]) -> None:
        """Add the columns whose names the Delta table has never had, in any case."""
        stored = {name.lower() for name in self._current_schema(table).names}
        new = [column for column in columns if column.name.lower() not in stored]
        if new:
            self.add(table, database, new)

    def present(self, table: Table, database: Database, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return those of some columns that the Delta table has, in these types, and that were not dropped."""
        stored = self._current_schema(table)
        current = {field.name: field.type for field in stored if not is_retired(field)}
        return tuple(column for column in columns if current.get(column.name) == field(column, database.precision).type)

    def retire(self, table: Table, name: str, record: Record) -> None:
        """Mark a column as dropped, then call `record`; if that refuses, remove the mark.

        The values stay in the files, so the name cannot be used again.
        """
        self._annotate(table, name, RETIREMENT)
        self._record(table, name, record)

    def retire_tag(self, table: Table, name: str, record: Record) -> None:
        """Do what `retire` does if rows carry a tag, as those of targets do; else only call `record`."""
        stored = None if table.is_virtual else self._current_schema(table)
        if stored is not None and name in stored.names and not is_retired(stored.field(name)):
            self.retire(table, name, record)
        else:
            record()

    def rename(self, table: Table, database: Database, column: Column, new: str, record: Record) -> None:
        """Copy a column's values into a new column and mark the old one as dropped, then call `record`, as `retire` does.

        The commits of the copy are not in the change feed. No other may come between the copy and the mark, after which the old
        column has no writers: the new one has all its values then. After a crash, the same call goes through the same steps, and
        copies only what differs.
        """
        old, new_field = column.name, field(replace(column, name=new), database.precision)
        copy = ColumnCopy(table, old, new)

        def work(handle: Handle, delta: DeltaTable) -> None:
            stored = stored_schema(delta)
            if not is_unfinished(stored, old, new_field):
                added = renamed_field(stored, old, new_field, handle.name)
                delta.alter.add_columns(Schema.from_arrow(pa.schema([added])).fields, commit_properties=commit_properties(None))
                failpoint("storage.columns.added")
            copy.run(handle, delta)
            failpoint("storage.column.copied")
            if not is_retired(stored.field(old)):
                delta.alter.set_column_metadata(old, RETIREMENT, commit_properties=commit_properties(None))

        self._commit(table, work)
        self._annotate(table, new, {TYPE_METADATA.decode(): str(column.type)})
        self._record(table, old, record)

    def _record(self, table: Table, name: str, record: Record) -> None:
        failpoint("storage.column.retired")
        try:
            record()
        except TerminalError:
            self._annotate(table, name, {RETIRED.decode(): "false"})
            raise

    def retype(self, table: Table, column: Column) -> None:
        """Record the declared type of a column or tag whose stored type stays the same."""
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
        with self._handles.reader(table).latest_snapshot() as newest:
            return newest.schema


def is_unfinished(stored: pa.Schema, old: str, new_field: pa.Field) -> bool:
    """Return whether a rename has added its new column before, and was interrupted."""
    if new_field.name not in stored.names:
        return False
    added = stored.field(new_field.name)
    marked = (added.metadata or {}).get(RENAMED_FROM) == old.encode()
    return marked and added.type == new_field.type and not is_retired(added)


def renamed_field(stored: pa.Schema, old: str, new_field: pa.Field, owner: str) -> pa.Field:
    """Return the column that a rename adds; refuse a name that the Delta table has."""
    if not missing_fields(stored, [new_field], owner):
        raise ExistsError(f"the Delta table of {owner} has a column {new_field.name} of another writer", hint="use another name")
    return new_field.with_metadata({**(new_field.metadata or {}), RENAMED_FROM: old.encode()})


def missing_fields(stored: pa.Schema, new_fields: Sequence[pa.Field], owner: str) -> list[pa.Field]:
    """Return the wanted fields that a table lacks.

    Raises:
        TypeMismatchError: A column of the name has another stored type.
        ExistsError: The name is that of a dropped column, or of one that a rename has added.
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
    if is_retired(old):
        raise ExistsError(
            f"{owner} had a column {new.name} that was dropped, and its Delta table keeps the old values", hint="use another name"
        )
    if RENAMED_FROM in (old.metadata or {}):
        raise ExistsError(
            f"the Delta table of {owner} has a column {new.name} with values of a rename that was interrupted",
            hint="repeat RENAME COLUMN, or use another name",
        )
    if old.type != new.type:
        raise TypeMismatchError(
            f"the Delta table of {owner} has a column {new.name} of type {old.type}, not {new.type}",
            hint="add it with the type that it has, or use another name",
        )
