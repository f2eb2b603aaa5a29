"""Times to live: whose rows they are about, and points that are older."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import Error, ExpiredPointsError
from headrace.model.paths import ANY_LEVELS, ROOT, join_path, split_path
from headrace.model.tables import Database
from headrace.model.time import Precision, first_live_tick
from headrace.model.tree_statements import INFINITE
from headrace.model.tree_status import TreeStatus
from headrace.model.trees import TIME_COLUMN
from headrace.trees.columns import clear_series
from headrace.trees.tablets import DEVICE, as_ticks

logger = logging.getLogger(__name__)

LEAST_TICK: Final = -(2**63) + 1
EVERY_PATH: Final = f"{ROOT}.{ANY_LEVELS}"
"""The path of the time to live of all devices that have no other one."""


def paths_of_ttl(path: str, databases: Collection[str]) -> tuple[str, ...]:
    """Return the paths whose time to live a statement sets: that of a database is also that of everything below it."""
    return (path, below(path)) if path in databases else (path,)


def below(path: str) -> str:
    """Return the pattern of everything below a path."""
    return join_path((path, ANY_LEVELS))


def ttl_by_device(devices: Iterable[str], rules: Mapping[str, int]) -> dict[str, int]:
    """Return the time to live of each device that has one: its own, else that of all below the nearest path above it."""
    chosen = {device: ttl_of(device, rules) for device in devices} if rules else {}
    return {device: ttl_ms for device, ttl_ms in chosen.items() if ttl_ms != INFINITE}


def ttl_of(device: str, rules: Mapping[str, int]) -> int:
    nodes = split_path(device)
    above = (below(join_path(nodes[:length])) for length in range(len(nodes) - 1, 0, -1))
    return next((rules[path] for path in (device, *above) if path in rules), INFINITE)


@dataclass(frozen=True, slots=True)
class Limits:
    """The first instants, in ticks, of points that live, by device; of those devices of one database that have a time to live."""

    precision: Precision
    first: Mapping[str, int]

    def are_expired(self, rows: pa.Table) -> pa.Array:
        """Return which rows, in the columns of the table, are older."""
        encoded = rows[DEVICE].combine_chunks().dictionary_encode()
        lowest = np.iinfo(np.int64).min
        first = np.array([self.first.get(path, lowest) for path in encoded.dictionary.to_pylist()], np.int64)
        times = as_ticks(rows[TIME_COLUMN], self.precision).cast(pa.int64()).to_numpy()
        return pa.array(times < first[encoded.indices.to_numpy()])

    def without_expired(self, rows: pa.Table) -> pa.Table:
        """Return the rows that live."""
        return rows.filter(pc.invert(self.are_expired(rows)))

    def check(self, rows: pa.Table) -> None:
        """Raise `ExpiredPointsError` if a row is older."""
        expired = rows.filter(self.are_expired(rows))
        if expired.num_rows:
            device, times = expired[DEVICE][0].as_py(), as_ticks(expired[TIME_COLUMN], self.precision)
            raise expired_error(device, times[0].cast(pa.int64()).as_py(), self.first[device], self.precision)


def limits_of(context: Context, devices: Mapping[str, Database]) -> dict[str, Limits]:
    """Return the limits of devices, given with their databases, as of now, by database. Those are left out that have none."""
    rules, now = context.catalog.trees.ttls(), context.clock.now()
    first: dict[str, dict[str, int]] = defaultdict(dict)
    for path, ttl_ms in ttl_by_device(devices, rules).items():
        first[devices[path].name][path] = first_live_tick(now, ttl_ms, devices[path].precision)
    precisions = {database.name: database.precision for database in devices.values()} if first else {}
    return {name: Limits(precisions[name], own) for name, own in first.items()}


def remove_expired(context: Context, only: str | None = None) -> dict[str, int]:
    """Delete the rows that are older than their time to live, of all trees or of one; return how many, by database.

    A tree for which that fails keeps them, which is logged.
    """
    removed = {}
    for name in context.catalog.trees.databases() if only is None else {only} & {*context.catalog.trees.databases()}:
        try:
            removed[name] = remove_from(context, context.catalog.databases.get(name))
        except Error as error:
            logger.warning("keeping the expired rows of %s: %s", name, error.message)
    return {name: rows for name, rows in removed.items() if rows}


def remove_from(context: Context, database: Database) -> int:
    """Delete the expired rows of a tree, in one commit for each time to live."""
    devices = {device.path: device for device in context.catalog.trees.all(database.name)} if context.catalog.trees.ttls() else {}
    limits = limits_of(context, dict.fromkeys(devices, database)).get(database.name)
    columns: dict[int, list[tuple[str, list[str]]]] = defaultdict(list)
    for path, first in limits.first.items() if limits else ():
        columns[first].append((path, [series.column for series in devices[path].series]))
    return sum(clear_series(context, database, own, ((LEAST_TICK, first - 1),)) for first, own in columns.items())


def expired_error(device: str, tick: int, first: int, precision: Precision) -> Error:
    """Return the error for a point that is older than its time to live allows."""
    time, bound = (np.datetime64(value, precision.value) for value in (tick, first))
    return ExpiredPointsError(
        f"Insertion time [{time}Z] is less than ttl time bound [{bound}Z]",
        hint=f"write later rows, or set another time to live; SHOW ALL TTL lists that of {device} or of what is above it",
    ).with_status(TreeStatus.OUT_OF_TTL)
