"""The one way in which points are written to series: INSERT, loads, INTO and continuous queries all call `write_points`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headrace.compute.iotdb.rows import live_rows
from headrace.compute.nodes import both
from headrace.context import Context
from headrace.errors import Error, TransientError
from headrace.model.failpoints import failpoint
from headrace.model.time import Precision
from headrace.model.trees import TIME_COLUMN, TREE_TABLE, Device, DeviceSeries
from headrace.model.triggers import RegisteredTrigger
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.points import MapRows, ReplacedPoints
from headrace.storage.spark.frames import map_partitions, read_batches
from headrace.trees.expiry import Limits, limits_of
from headrace.trees.firing import Firing
from headrace.trees.owners import as_owner, with_rights
from headrace.trees.series import resolve_series
from headrace.trees.tablets import DEVICE, WrittenTablets
from headrace.trees.trigger_drops import complete_interrupted
from headrace.trees.trigger_writes import inserted_rows
from headrace.trees.triggers import match_triggers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


__all__ = ["DEVICE", "DeviceRows", "Points", "StoredPoints", "write_points"]


class StagedRows(Protocol):
    """Rows in staged files."""

    def __call__(self) -> WriteMetrics:
        """Commit them."""

    def batches(self) -> Iterator[pa.Table]:
        """Read them, in the columns of the table."""

    @property
    def map_in_tasks(self) -> MapRows | None:
        """Applies a function to the rows of each file in Spark's tasks; None if they are too few for that."""


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """Points of one database, in the columns of its table, and points that give way to them.

    The rows are in memory, or executors write them (each of a key of its own), or they are what commits rows in staged files.
    """

    rows: Sequence[pa.Table] | DataFrame | StagedRows
    replaced: ReplacedPoints | None = None


class Points(Protocol):
    """Points to write."""

    @property
    def series(self) -> Sequence[DeviceSeries]:
        """The series that they are of; those that are missing are created."""

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """Return them by database; `devices` has those of the series. Raises an error if a series cannot have its values."""


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Rows of one device: `time` as stored, and a column for each measurement of `series`, in the type of its series."""

    series: tuple[DeviceSeries]
    rows: pa.Table

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """See `Points`."""
        if not self.rows.num_rows:
            return {}
        device = devices[self.series[0].path]
        columns = {TIME_COLUMN: self.rows.column(0), DEVICE: pa.repeat(pa.scalar(device.path), self.rows.num_rows)}
        for measurement in self.rows.column_names[1:]:
            series = device.find(measurement)
            assert series is not None
            columns[series.column] = self.rows[measurement]
        return {device.database: StoredPoints([pa.table(columns)])}


def write_points(
    context: Context,
    points: Sequence[Points],
    check: Callable[[], None] | None = None,
    fired_by: frozenset[str] = frozenset(),
    *,
    drops_expired: bool = False,
) -> dict[str, WriteMetrics]:
    """Write points in one commit for each database; of points at the same instant the last are kept. Calls triggers.

    Those with replaced points, and those that are not rows in memory, have to be alone. `check` is called before each commit;
    what it raises prevents the commit. Points that replace none, without a `check`, may share a commit with those of others.
    `fired_by` has the ids of the triggers that have inserted the points, which are not called. With `drops_expired`, points that
    are older than their time to live are left out, since no client waits for an answer.

    Raises:
        ExpiredPointsError: Points are older than their time to live; none is written.
        TriggerFireError: A trigger failed; its `is_written` is True if the points are written.
        Error: Of `Context.authorize_points`; nothing is created or written. Or a series cannot have its values.
    """
    series = [one for own in points for one in own.series]
    context.authorize_points(series)
    devices = resolve_series(context, series)
    parts: dict[str, list[StoredPoints]] = defaultdict(list)
    for own in points:
        for name, stored in own.stored(devices).items():
            parts[name].append(stored)
    for name, limits in limits_of(context, {one.path: one.database for one in series}).items():
        parts[name] = [live_points(stored, limits, drops_expired=drops_expired) for stored in parts[name]]
    # All values are valid here and nothing is written yet, so what may refuse a write is here, and what follows one below.
    triggers = [trigger for trigger in active_triggers(context) if trigger.id not in fired_by]
    matched = match_triggers(triggers, series, devices) if triggers else []
    if not matched:
        return commit_each(context, parts, check)
    precisions = {one.database.name: one.database.precision for one in series}
    tablets = [written_tablets(part, devices, precisions[name]) for name, stored in parts.items() for part in stored]
    firing = Firing(context, matched, tablets)
    firing.fire_before()
    failpoint("triggers.checked")
    written = commit_each(context, parts, check)
    failpoint("triggers.written")
    firing.fire_after()
    failpoint("triggers.fired")
    write_insertions(firing, fired_by)
    firing.finish()
    return written


def live_points(points: StoredPoints, limits: Limits, *, drops_expired: bool) -> StoredPoints:
    """Return the points that are within their time to live. Raise `ExpiredPointsError` if others are not to be dropped."""
    rows = points.rows
    if callable(rows):
        for batch in rows.batches():
            limits.check(batch)
        return points
    if isinstance(rows, Sequence):
        for table in () if drops_expired else rows:
            limits.check(table)
        return replace(points, rows=[limits.without_expired(table) for table in rows]) if drops_expired else points
    live = both(*live_rows(limits.first, limits.precision, TIME_COLUMN, DEVICE))
    if not drops_expired:
        for batch in read_batches(rows.filter(f"NOT ({live})").limit(1)):
            limits.check(batch)
    return replace(points, rows=rows.filter(str(live)))


def active_triggers(context: Context) -> tuple[RegisteredTrigger, ...]:
    """Return the triggers that writes call.

    Those are completed that a process has left half created or dropped, and those are stopped whose owners may not use triggers.
    """
    active = context.catalog.triggers.active()
    if context.catalog.triggers.take_interruptions():
        complete_interrupted(context)
        active = context.catalog.triggers.active()
    return with_rights(context, active) if active else ()


def write_insertions(firing: Firing, fired_by: frozenset[str]) -> None:
    """Write the rows that triggers insert, with the rights of their owners. A failure is one of the trigger."""
    for trigger, insertions in firing.owned_insertions():
        try:
            rows = [DeviceRows((series,), table) for series, table in inserted_rows(firing.context, insertions)]
            write_points(as_owner(firing.context, trigger.owner), rows, fired_by=fired_by | {trigger.id})
        except Error as error:
            firing.note_failure(trigger, error)


def written_tablets(part: StoredPoints, devices: Mapping[str, Device], precision: Precision) -> WrittenTablets:
    """Return the tablets of points of a database."""
    rows = part.rows
    if isinstance(rows, Sequence):
        return WrittenTablets(devices, precision, lambda: iter(rows), is_in_memory=True)
    if callable(rows):
        return WrittenTablets(devices, precision, rows.batches, is_in_memory=False, map_in_tasks=rows.map_in_tasks)
    return WrittenTablets(
        devices, precision, partial(read_batches, rows), is_in_memory=False, map_in_tasks=partial(map_partitions, rows)
    )


def commit_each(
    context: Context, parts: Mapping[str, Sequence[StoredPoints]], check: Callable[[], None] | None
) -> dict[str, WriteMetrics]:
    """Write the points of several databases. One that cannot be written now does not keep the others from it.

    Raises:
        TransientError: Of the first that could not be written; its message names those that are.
    """
    written: dict[str, WriteMetrics] = {}
    failure: TransientError | None = None
    for name, stored in parts.items():
        try:
            written[name] = commit(context, name, stored, check)
        except TransientError as error:
            failure = failure or error
    if failure is None:
        return written
    if written:
        # The error may be that of other writes of a group too.
        failure = copy(failure)
        failure.message += f"; only the points of {', '.join(written)} are written"
    raise failure


def commit(context: Context, name: str, parts: Sequence[StoredPoints], check: Callable[[], None] | None) -> WriteMetrics:
    """Write the points of one database."""
    table, database = context.catalog.tables.get(name, TREE_TABLE), context.catalog.databases.get(name)
    tables, max_rows, first = context.tables, context.settings.driver_rows, parts[0]
    if callable(first.rows):
        return first.rows()
    if not isinstance(first.rows, Sequence):
        return tables.frames.write_points(
            table, database, first.rows, first.replaced, max_rows=max_rows, check=check or (lambda: None)
        )
    nothing = tables.schema(table, database).empty_table().select([TIME_COLUMN, DEVICE])
    rows = [row for part in parts if isinstance(part.rows, Sequence) for row in part.rows]
    combined = pa.concat_tables([nothing, *rows], promote_options="default")
    if context.group_commit is not None and check is None and first.replaced is None:
        return context.group_commit.write_points(table, database, combined, max_rows=max_rows)
    return tables.writer.write_points(table, database, combined, first.replaced, max_rows=max_rows, check=check or (lambda: None))
