"""Tags of subtables: a small Delta table next to that of the rows, cached by version."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from headrace.errors import HistoryGoneError, NotFoundError, StaleDefinitionError, StorageError
from headrace.model.failpoints import failpoint
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.storage.delta.commits import commit_properties
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.external_series import ExternalSeries
from headrace.storage.delta.handles import Handle, list_files, stored_schema
from headrace.storage.delta.keys import anti_join, conform_rows, keep_last_per_key, quote_identifier, semi_join, subtable_condition
from headrace.storage.delta.subtable_names import SubtableNames
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.writer import Writer, with_all_columns
from headrace.storage.types import field

TAG_KEY: Final = [TableKind.SUPER.series_key]
# Tags arrive a few at a time. Each file slows every reader and writer, so compact beyond this many.
MAX_FILES: Final = 50


class Tags:
    """Reads and writes tags. Reads are cached by version, as every query joins them."""

    def __init__(self, handles: Handles, writer: Writer, names: SubtableNames) -> None:
        self._handles = handles
        self._writer = writer
        self._names = names
        self._kept: dict[str, tuple[tuple[object, int], pa.Table]] = {}
        self._tagged: dict[str, tuple[pa.Table, frozenset[str]]] = {}
        self._external = ExternalSeries()

    def read(self, table: Table) -> pa.Table:
        """Return `tbname` and a column per tag, one row per subtable; of an external table the last tags of each series."""
        if table.external is not None:
            return self._external.read(self._handles.reader(table), table)
        handle = self._handles.tags(table)
        with handle.latest() as delta:
            return self._read_current(handle, delta)

    def version(self, table: Table) -> int:
        """Return the newest version of the tags; cheap enough to ask with each micro-batch."""
        return self._handles.tags(table).version()

    def read_at(self, table: Table, version: int) -> pa.Table:
        """Return what `read` did at a version.

        Raises:
            HistoryGoneError: The version has been removed.
        """
        handle = self._handles.tags(table)
        kept = self._kept.get(handle.uri)
        if kept is not None and kept[0][1] == version:
            return kept[1]
        try:
            delta = handle.at(version)
            return read_data_files(handle.uri, list_files(delta)["path"].to_pylist(), stored_schema(delta), None, None)
        except (StorageError, NotFoundError, pa.ArrowException, OSError) as error:
            raise HistoryGoneError(
                f"version {version} of {handle.name} has been removed, so the groups that rows leave are unknown",
                hint="RESET STREAM computes the results again, by the present tags; keep versions for as long as streams may rest",
            ) from error

    def of_subtables(self, table: Table) -> pa.Table:
        """What `read` returns, and a row of NULLs for each subtable that has rows but no tags."""
        tags = self.read(table)
        if table.external is not None:
            return tags
        return completed(tags, self._names.read(table)).sort_by(TAG_KEY[0])

    def missing(self, table: Table, tbnames: Collection[str]) -> list[str]:
        """Those of some names without tags. Asks the table only about names that the tags last read do not have."""
        uri = self._handles.tags(table).uri
        unseen = set(tbnames).difference(self._tagged[uri][1] if uri in self._tagged else ())
        if unseen:
            unseen -= self._names_with_tags(uri, self.read(table))
        return [name for name in dict.fromkeys(tbnames) if name in unseen]

    def _names_with_tags(self, uri: str, tags: pa.Table) -> frozenset[str]:
        """Return the names of all subtables with tags. They are collected for who asks for some: streams never do."""
        kept = self._tagged.get(uri)
        if kept is None or kept[0] is not tags:
            kept = self._tagged[uri] = (tags, frozenset(tags[TAG_KEY[0]].to_pylist()))
        return kept[1]

    def upsert(self, table: Table, rows: pa.Table) -> None:
        """Set the tags of subtables: `tbname` and a column a tag. Tags that `rows` lacks stay as they are, NULL in new rows.

        Raises:
            StaleDefinitionError: A tag of `rows` was dropped or renamed meanwhile.
        """

        def work(handle: Handle, delta: DeltaTable) -> None:
            stored = self._read_current(handle, delta)
            new_rows = keep_last_per_key(
                conform_rows(rows, fields_of(rows, stored.schema, handle.name), TAG_KEY, handle.name), TAG_KEY
            )
            # A driver that starts sets the tags of all groups again: a merge would rewrite them.
            new_rows = anti_join(new_rows, stored, new_rows.column_names)
            if new_rows.num_rows == 0:
                return
            if semi_join(new_rows.select(TAG_KEY), stored, TAG_KEY).num_rows:
                _merge(delta, new_rows)
            else:
                complete = with_all_columns(new_rows, stored_schema(delta))
                write_deltalake(delta, complete, mode="append", commit_properties=commit_properties(None))
            if len(delta.file_uris()) > MAX_FILES:
                delta.optimize.compact()

        self._commit(table, work)

    def drop(self, table: Table, tbnames: Collection[str]) -> None:
        """Delete the tags of subtables."""

        def work(_: Handle, delta: DeltaTable) -> None:
            if tbnames:
                delta.delete(subtable_condition(sorted(tbnames), table.series_key), commit_properties=commit_properties(None))

        self._commit(table, work)

    def add(self, table: Table, database: Database, tag: Column) -> None:
        """Add a tag, NULL for all subtables, also when a column of that name is left from an unfinished change."""
        new = field(tag, database.precision)
        with self._locked(table):
            self._rewrite(table, lambda tags: _set(tags, new, pa.nulls(tags.num_rows, new.type)))

    def remove(self, table: Table, name: str) -> None:
        """Remove a tag with its values; one that does not exist is no error."""
        with self._locked(table):
            self._rewrite(table, lambda tags: _without_column(tags, name))

    def rename(self, table: Table, old: str, new: str, rename: Callable[[], None]) -> None:
        """Copy a tag, call `rename`, and remove the old one, so that both names have values in between.

        The lock is held throughout, so that no value is set under the old name after the copy.
        """
        with self._locked(table):
            self._rewrite(table, lambda tags: _set(tags, tags.schema.field(old).with_name(new), tags[old]))
            failpoint("storage.tag.copied")
            rename()
            failpoint("storage.tag.renamed")
            self._rewrite(table, lambda tags: _without_column(tags, old))

    def _rewrite(self, table: Table, change: Callable[[pa.Table], pa.Table]) -> None:
        """Rewrite all tags with other columns, in one commit."""

        def work(handle: Handle, delta: DeltaTable) -> None:
            stored = self._read_current(handle, delta)
            changed = change(stored)
            if changed is not stored:
                write_deltalake(
                    delta, changed, mode="overwrite", schema_mode="overwrite", commit_properties=commit_properties(None)
                )

        self._writer.attempts(self._handles.tags(table), work)

    def _locked(self, table: Table) -> AbstractContextManager[None]:
        return self._writer.exclusive(_lock_name(table), needed=True)

    def _commit(self, table: Table, work: Callable[[Handle, DeltaTable], None]) -> None:
        with self._writer.exclusive(_lock_name(table)):
            self._writer.attempts(self._handles.tags(table), work)

    def _read_current(self, handle: Handle, delta: DeltaTable) -> pa.Table:
        """Return all tags at this version, sorted by subtable."""
        state = (delta.metadata().id, delta.version())
        kept = self._kept.get(handle.uri)
        if kept is None or kept[0] != state:
            schema = stored_schema(delta)
            rows = read_data_files(handle.uri, handle.files(delta)["path"].to_pylist(), schema, None, None)
            kept = self._kept[handle.uri] = (state, rows.sort_by(TAG_KEY[0]))
        return kept[1]


def _lock_name(table: Table) -> str:
    return f"tags.{table.database}.{table.name}"


def fields_of(rows: pa.Table, stored: pa.Schema, owner: str) -> pa.Schema:
    """Return the stored fields of the rows' columns.

    Raises:
        StaleDefinitionError: A tag does not exist any more; the caller read the catalog before it was dropped.
    """
    missing = next((name for name in rows.column_names if name not in stored.names), None)
    if missing is not None:
        raise StaleDefinitionError(f"{owner} changed: {missing} does not exist any more", hint="try again")
    return pa.schema([field for field in stored if field.name in rows.column_names])


def _set(tags: pa.Table, field: pa.Field, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return _without_column(tags, field.name).append_column(field, values)


def _without_column(tags: pa.Table, name: str) -> pa.Table:
    return tags.drop_columns([name]) if name in tags.column_names else tags


def absent(names: Collection[str], tags: pa.Table) -> list[str]:
    """The names, each once, that have no row among the tags."""
    distinct_names = pa.array(dict.fromkeys(names), pa.string())
    return list(distinct_names.filter(pc.invert(pc.is_in(distinct_names, tags[TAG_KEY[0]].combine_chunks()))).to_pylist())


def completed(tags: pa.Table, names: pa.Array) -> pa.Table:
    """The tags, followed by a row of NULLs for each of the names that has none."""
    added = absent(names.to_pylist(), tags)
    rows = {TAG_KEY[0]: pa.array(added, pa.string())}
    columns = [rows.get(field.name, pa.nulls(len(added), field.type)).cast(field.type) for field in tags.schema]
    return pa.concat_tables([tags, pa.table(columns, schema=tags.schema)])


def _merge(delta: DeltaTable, rows: pa.Table) -> None:
    values = {quote_identifier(name): f"s.{quote_identifier(name)}" for name in rows.column_names}
    merger = delta.merge(
        rows,
        f"t.{quote_identifier(TAG_KEY[0])} = s.{quote_identifier(TAG_KEY[0])}",
        source_alias="s",
        target_alias="t",
        commit_properties=commit_properties(None),
    )
    merger.when_matched_update(values).when_not_matched_insert(values).execute()
