"""The sink `delta-sink`: keeps the points in a Delta table of its own, which any Delta reader can read."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from headrace.egress import EgressPolicy, Endpoint, EndpointKind, canonical, denied
from headrace.errors import FencedError, StorageError
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, Event, InsertEvent
from headrace.pipes.plugins import Delivery, PipeContext, Sink
from headrace.pipes.sinks.delta_layouts import DAY, Layout, OwnLayout, find_layout
from headrace.storage.delta.handles import first_line, open_table
from headrace.storage.object_store import delta_options
from headrace.storage.types import MICROSECONDS

logger = logging.getLogger(__name__)

EPOCH: Final = "#epoch"
"""Follows the id of a pipe in the name of the transaction that has the epoch of its driver."""
COMPACTED_COMMITS: Final = 64
"""Commits after which their small files are joined."""
SMALL_FILE_BYTES: Final = 8 << 20
"""Files of this size are joined no more, so that a row is rewritten a few times only."""
VACUUM_S: Final = 3_600.0
"""How often files that were replaced are removed, once they are older than `HISTORY`."""
HISTORY: Final = "interval 1 days"
LOG_HISTORY: Final = "interval 1 hours"
"""How long entries of the log stay. Each commit lists them: with 4,000, a batch takes four times as long."""
PROPERTIES: Final = {"delta.deletedFileRetentionDuration": HISTORY, "delta.logRetentionDuration": LOG_HISTORY}
NULL_IF_DELETED: Final = "CASE WHEN s.{0} IS NOT NULL THEN NULL ELSE t.{0} END"
"""What remains of a column's value when the rows to erase have one there."""


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """The parameters: where the table is, in canonical form, and whether it is partitioned by day."""

    uri: str
    by_day: bool


def read_options(attributes: PipeAttributes) -> DeltaOptions:
    """Return the parameters; raise `ProgrammingError` if they are not valid."""
    uri = attributes.first("connector.uri", "sink.uri")
    if not uri:
        raise pipe_error("sink.uri must be specified", hint="name a folder or s3://bucket/path, such as 'sink.uri'='/data/plant'")
    by_day = attributes.boolean("connector.partition-by-day", "sink.partition-by-day", default=True)
    return DeltaOptions(canonical(uri), by_day)


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_options(attributes)


def endpoints(attributes: PipeAttributes) -> tuple[Endpoint, ...]:
    """Return the folder that attributes name."""
    return (Endpoint(EndpointKind.LOCATION, read_options(attributes).uri),)


def create(attributes: PipeAttributes, pipe: PipeContext) -> Sink:
    """Create the sink."""
    return DeltaSink(read_options(attributes), pipe.context.egress)


class DeltaSink(Sink):
    """Upserts points into a table with a row for each device and time, and a column for each measurement.

    The table is the sink's own, which gets a column for each new measurement, or a supertable of another home. Deleted points
    become NULL, rows without any go. Statements are left out. Delivering again writes the same values. A commit carries the epoch
    of its driver, after which drivers with older leases cannot overwrite newer values.
    """

    def __init__(self, options: DeltaOptions, egress: EgressPolicy) -> None:
        self._options = options
        self._egress = egress
        self._storage = delta_options(options.uri)
        # Commits since small files were joined, and when replaced files are removed next, on the monotonic clock.
        self._commits = 0
        self._vacuum_at = 0.0

    def handshake(self) -> None:
        """Check that the folder holds a table of this sink, or that one can be created there."""
        self._check_location()
        with storage_errors(self._options.uri):
            exists = DeltaTable.is_deltatable(self._options.uri, storage_options=self._storage)
        if not exists:
            self._create()
        with storage_errors(self._options.uri):
            find_layout(self._open(), self._options.by_day)

    def transfer(self, delivery: Delivery) -> None:
        """Commit the events, in order."""
        self._check_location()
        table = self._open()
        layout = find_layout(table, self._options.by_day)
        if delivery.is_same and (table.transaction_version(delivery.pipe_id) or 0) >= delivery.batch:
            return
        events = [event for event in delivery.events if isinstance(event, InsertEvent | DeleteEvent)]
        for number, event in enumerate(events, start=1):
            ends = delivery.is_last and number == len(events)
            self._commit(layout, event, transactions_of(delivery, ends=ends))
            self._commits += 1
        if self._commits >= COMPACTED_COMMITS and isinstance(layout, OwnLayout):
            self._commits = 0
            self._tidy()

    def _tidy(self) -> None:
        """Join small files, of which each commit adds one, and remove those that were replaced long ago: no other process does.

        What fails now, such as beside another writer, is done after the next commits.
        """
        try:
            self._open().optimize.compact(target_size=SMALL_FILE_BYTES)
            if time.monotonic() >= self._vacuum_at:
                self._vacuum_at = time.monotonic() + VACUUM_S
                self._open().vacuum(dry_run=False)
        except (DeltaError, OSError, StorageError) as error:
            logger.warning("files of %s are joined later: %s", self._options.uri, first_line(error))

    def _check_location(self) -> None:
        """Raise `EgressDeniedError` if the folder is not allowed now, or has become a link to another one."""
        if self._egress.location(self._options.uri) != self._options.uri:
            raise denied(Endpoint(EndpointKind.LOCATION, self._options.uri))

    def _create(self) -> None:
        fields = [pa.field(TIME, MICROSECONDS), pa.field(DEVICE, pa.string())]
        fields += [pa.field(DAY, pa.date32())] if self._options.by_day else []
        with storage_errors(self._options.uri):
            DeltaTable.create(
                self._options.uri,
                pa.schema(fields),
                mode="ignore",
                configuration=PROPERTIES,
                partition_by=[DAY] if self._options.by_day else None,
                storage_options=self._storage,
            )

    def _open(self) -> DeltaTable:
        with storage_errors(self._options.uri):
            return open_table(self._options.uri)

    def _schema(self) -> pa.Schema:
        return pa.schema(self._open().schema())

    def _commit(self, layout: Layout, event: Event, transactions: Sequence[Transaction]) -> None:
        assert isinstance(event, InsertEvent | DeleteEvent)
        with storage_errors(self._options.uri):
            rows = layout.rows(event.data, self._schema())
            self._add_columns(rows)
            table = self._open()
            refuse_older(table, transactions)
            properties = CommitProperties(app_transactions=list(transactions) or None)
            merge = table.merge(
                rows, " AND ".join(layout.conditions(rows)), source_alias="s", target_alias="t", commit_properties=properties
            )
            names = [name for name in rows.column_names if name not in layout.keys]
            if isinstance(event, InsertEvent):
                upsert(merge, names, rows.column_names)
            else:
                erase(merge, names, [name for name in self._schema().names if name not in layout.keys])

    def _add_columns(self, rows: pa.Table) -> None:
        missing = [field for field in rows.schema if field.name not in self._schema().names]
        if missing:
            empty = rows.slice(0, 0)
            write_deltalake(self._options.uri, empty, mode="append", schema_mode="merge", storage_options=self._storage)


def transactions_of(delivery: Delivery, *, ends: bool) -> list[Transaction]:
    """Return what a commit carries: the epoch, and in the one that ends a number this number if it names its events."""
    epoch = [Transaction(delivery.pipe_id + EPOCH, delivery.epoch)] if delivery.epoch else []
    return [*epoch, *([Transaction(delivery.pipe_id, delivery.batch)] if delivery.is_same and ends else [])]


def refuse_older(table: DeltaTable, transactions: Sequence[Transaction]) -> None:
    """Raise `FencedError` if a driver with a newer lease has committed. One that commits from now on makes the commit fail."""
    for transaction in transactions:
        if transaction.app_id.endswith(EPOCH) and (table.transaction_version(transaction.app_id) or 0) > transaction.version:
            raise FencedError("a driver with a newer lease writes the table of this pipe", hint="another driver has taken over")


def upsert(merge: Any, names: Sequence[str], columns: Sequence[str]) -> None:
    """Write values, and keep those that rows do not have."""
    values = {quoted(name): f"coalesce(s.{quoted(name)}, t.{quoted(name)})" for name in names}
    inserted = {quoted(name): f"s.{quoted(name)}" for name in columns}
    merge.when_matched_update(values).when_not_matched_insert(inserted).execute()


def erase(merge: Any, names: Sequence[str], others: Sequence[str]) -> None:
    """Remove values, and rows without any of the others."""
    rest = [NULL_IF_DELETED.format(quoted(name)) if name in names else f"t.{quoted(name)}" for name in others]
    is_empty = " AND ".join(f"({value}) IS NULL" for value in rest)
    merge.when_matched_delete(is_empty).when_matched_update(
        {quoted(name): NULL_IF_DELETED.format(quoted(name)) for name in names}
    ).execute()


def quoted(name: str) -> str:
    """Return a column's name as merges write it."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Translate errors of the storage."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise StorageError(f"{uri} cannot be read or written: {first_line(error)}", hint="check the storage") from error
