"""Source pollers: one reader of changes for each source table, or for several tables that are read together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from weakref import WeakValueDictionary

from headrace.context import Context
from headrace.jobs.hosts import Driving, HostedJob, Source
from headrace.jobs.runners import Advance, Runner
from headrace.model.jobs import JobRecord
from headrace.model.positions import Offsets, SourceId, is_ahead, is_behind
from headrace.model.tables import TableId
from headrace.streams.definition.define import plan_recorded_stream
from headrace.streams.runner import Reader
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.sources.turns import Turns, turns_at
from headrace.streams.sources.virtual_reader import VirtualReader

BATCH_THREADS: Final = 8


class SourcePoller(Source):
    """Reads the changes of one source, which jobs at the same offsets share. Each job has a position of its own."""

    def __init__(self, reader: Reader, tables: Collection[SourceId], turns: Turns) -> None:
        """Poll the tables of a reader."""
        self.reader: Reader = reader
        self._tables = frozenset(tables)
        self._turns = turns
        self._committed_at: dict[tuple[SourceId, int], int | None] = {}

    def read(self, jobs: Collection[HostedJob], handled: Offsets | None) -> Offsets:
        """Return the latest version of each table, and note when the first unhandled commits of each job were made."""
        latest = self.reader.latest()
        if latest == handled:
            self._committed_at = {}
            return latest
        unhandled = {
            (source, offset + 1)
            for job in jobs
            for source, offset in recorded_offsets(job).items()
            if offset < latest.get(source, -1)
        }
        cached = self._committed_at
        self._committed_at = {
            commit: cached[commit] if commit in cached else self.reader.committed_at(*commit) for commit in unhandled
        }
        return latest

    def has_news(self, runner: Runner, latest: Offsets) -> bool:
        """Return True if there are newer versions; older ones make the micro-batch fail, unless `latest` is outdated."""
        return is_behind(runner.offsets, latest) or is_ahead(runner.offsets, latest)

    def follows(self, table: SourceId) -> bool:
        return table in self._tables

    def advance(self, jobs: Sequence[HostedJob]) -> Sequence[Advance]:
        with self._turns.take():
            return super().advance(jobs)

    def pending_since(self, job: HostedJob) -> int | None:
        """Return when the oldest commit not yet handled was made, as of the last version read: a source may hang."""
        committed_at = self._committed_at
        instants = (committed_at.get((source, offset + 1)) for source, offset in recorded_offsets(job).items())
        return min((instant for instant in instants if instant is not None), default=None)


def recorded_offsets(job: HostedJob) -> Offsets:
    """Return the last version of each source that a job has handled and recorded; none before it is live."""
    runner = job.runner
    position = (job.record.progress if runner is None else runner.progress).position
    return {} if position is None else position.offsets


class SourcePollers:
    """The source pollers of a driver."""

    name = "poller"
    threads = BATCH_THREADS

    def __init__(self, driving: Driving) -> None:
        self._context: Context = driving.context
        self._turns = turns_at(self._context.tables.uri, BATCH_THREADS)
        self._pollers: WeakValueDictionary[str, SourcePoller] = WeakValueDictionary()
        self._readers: WeakValueDictionary[SourceId, ChangeReader] = WeakValueDictionary()

    def refresh(self, records: Sequence[JobRecord], runnable: Sequence[JobRecord]) -> None:
        """Do nothing: a source stays the same as long as jobs read it."""

    def source(self, record: JobRecord) -> Source:
        """Return the poller of a job; raise `NotFoundError` if its source is not in the catalog."""
        definition = record.definition
        # Virtual tables may differ in their origins from stream to stream.
        key = definition.source_ids[0] if definition.virtual is None else definition.id
        poller = self._pollers.get(key)
        if poller is None:
            poller = self._pollers[key] = SourcePoller(self._reader(record), definition.source_ids, self._turns)
        return poller

    def _reader(self, record: JobRecord) -> Reader:
        definition, context = record.definition, self._context
        readers = {
            id: self._change_reader(id, source) for id, source in zip(definition.source_ids, definition.sources, strict=True)
        }
        if definition.virtual is None:
            (reader,) = readers.values()
            return reader
        return VirtualReader(context, plan_recorded_stream(definition, context.catalog, context.settings).scan, readers)

    def _change_reader(self, id: SourceId, source: TableId) -> ChangeReader:
        reader = self._readers.get(id)
        if reader is None:
            database = self._context.catalog.databases.get(source.database)
            reader = ChangeReader(self._context, self._context.catalog.tables.get(source.database, source.name), database)
            self._readers[id] = reader
        return reader
