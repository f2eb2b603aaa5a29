"""Measurements of a home and its processes, and whether they stay flat."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import psutil
from sqlalchemy import Engine, func, select

from headrace.catalog import audit, events, executions
from headrace.catalog.rows.metadata import METADATA
from headrace.storage.delta.creation import CHECKPOINT_INTERVAL_VERSIONS
from headrace.streams.windows.notes import MAX_NOTES

Sample = dict[str, float]
"""Values by the name of their measure. A measure that has no value at the moment is missing."""
STREAMS: Final = ("minute", "by_tag", "rows")
"""A window of each series, windows of several series, and a result for each row: its target has as many commits."""
TENTHS: Final = 10
MAX_GROWTH: Final = 1.2
CONTROL: Final = "INSERT into a new table"
"""What takes as long in every tenth, unless programs that share the caches and cores do more: other times are seen beside it."""
MAX_MEMORY_GROWTH: Final = 1.05
"""Of memory, the last tenth by the fifth: caches that have a bound fill first."""
MIN_COUNT: Final = 64
"""Counts below this are flat: a few files more or less, such as those that are being read, are no growth."""
MIN_MB: Final = 1.0
OF_HISTORY: Final = ("files of log of", "files of data of", "files of changes of")
MAX_ENTRIES: Final = 2 * CHECKPOINT_INTERVAL_VERSIONS
"""Entries of the log of a table with few commits, and files that they name: those since the last checkpoint but one stay."""
MAX_ROWS: Final[dict[str, int]] = {
    "executions": executions.KEPT + executions.PRUNED_EVERY,
    "events": events.KEPT,
    "audit_log": audit.MAX_ENTRIES,
    "window_notes": len(STREAMS) * MAX_NOTES,
}
"""Rows up to which tables of the catalog may grow: they remove the oldest ones."""
OF_ROWS: Final = ("size of data of ", "files of data of archive", "files of log of archive", "size of log of archive")
"""What grows with the rows themselves: the table of a `delta-sink` belongs to the user, and gets a file with each batch."""
LOG, CHANGES, STATE, OUTBOX = "_delta_log", "_change_data", ".streams", ".outbox"


@dataclass(frozen=True)
class Trend:
    """The medians of one measure in the tenths of a campaign."""

    measure: str
    tenths: tuple[float, ...]
    slowdown: float = 1.0
    """For times, the growth of what an INSERT into a new table took."""

    @property
    def growth(self) -> float:
        """The last tenth by the second."""
        second, last = self.tenths[1], self.tenths[-1]
        return last / second if second else float(bool(last))

    @property
    def is_flat(self) -> bool:
        """Return whether the last tenth is at most `MAX_GROWTH` times the second one, or within the bound of its table."""
        if self.measure.startswith("memory of") and self.tenths[-1] <= MAX_MEMORY_GROWTH * self.tenths[TENTHS // 2 - 1]:
            return True
        is_within = self.growth <= MAX_GROWTH * max(1.0, self.slowdown) or self.tenths[-1] <= self.bound
        return is_within or self.measure.startswith((*OF_ROWS, CONTROL))

    @property
    def bound(self) -> float:
        """The value up to which any growth is flat."""
        if self.measure.startswith(("size of", "memory of")):
            return MIN_MB
        if self.measure.startswith(OF_HISTORY):
            return MAX_ENTRIES
        return MAX_ROWS.get(self.measure.removeprefix("rows of "), MIN_COUNT) if is_count(self.measure) else 0


def is_count(measure: str) -> bool:
    """Return whether a measure counts something. Others have units: ms, MB."""
    return not measure.endswith((" ms", " MB"))


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Return the trend of each measure that has values in the second and the last tenth."""
    parts = [samples[len(samples) * tenth // TENTHS : len(samples) * (tenth + 1) // TENTHS] for tenth in range(TENTHS)]
    measures = list(dict.fromkeys(measure for sample in samples for measure in sample))
    values = {measure: [[sample[measure] for sample in part if measure in sample] for part in parts] for measure in measures}
    all_trends = [
        Trend(measure, tuple(median(tenth) if tenth else 0.0 for tenth in tenths))
        for measure, tenths in values.items()
        if tenths[1] and tenths[-1]
    ]
    slowdowns = {
        trend.measure.removeprefix(f"{CONTROL}, "): trend.growth for trend in all_trends if trend.measure.startswith(CONTROL)
    }
    return [replace(trend, slowdown=slowdowns.get(time_of(trend.measure), 1.0)) for trend in all_trends]


def time_of(measure: str) -> str:
    """Return which time a measure is of, such as `CPU ms`; of other measures something else."""
    return "CPU ms" if ", CPU " in measure else measure.rpartition(", ")[2]


def catalog_rows(engine: Engine) -> Sample:
    """Return the number of rows of each table of the catalog that has some."""
    counts = {table.name: select(func.count()).select_from(table).scalar_subquery() for table in METADATA.sorted_tables}
    with engine.connect() as connection:
        row = connection.execute(select(*(count.label(name) for name, count in counts.items()))).mappings().one()
    return {f"rows of {name}": count for name, count in row.items() if count}


def files_of(home: Path) -> Sample:
    """Return the number and the size of the files of a home, by what they are for."""
    counts, sizes = defaultdict[str, int](int), defaultdict[str, int](int)
    for purpose, size in sized_files(home):
        counts[purpose] += 1
        sizes[purpose] += size
    return {f"files of {name}": count for name, count in counts.items()} | {
        f"size of {name} MB": as_mb(sizes[name]) for name in sizes
    }


def sized_files(home: Path) -> Iterator[tuple[str, int]]:
    """Yield for each file what it is for, and its size on the disk in bytes. Files that vanish meanwhile are left out."""
    for folder, _, names in os.walk(home):
        parts = Path(folder).relative_to(home).parts
        for name in names:
            try:
                yield purpose_of(parts, name), os.stat(f"{folder}/{name}").st_blocks * 512
            except FileNotFoundError:
                continue


def purpose_of(folder: tuple[str, ...], name: str) -> str:
    """Return what a file is for: by table, its log, changes and data; else the folder it is in."""
    for mark, purpose in ((STATE, "state of streams"), (OUTBOX, "outboxes")):
        if mark in folder:
            return purpose
    if LOG in folder:
        table = "/".join(folder[: folder.index(LOG)]).removeprefix("tables/")
        return f"{'checkpoints' if 'checkpoint' in name else 'log'} of {table}"
    if name.endswith(".parquet"):
        changes = CHANGES in folder
        table = "/".join(folder[: folder.index(CHANGES)] if changes else folder).removeprefix("tables/")
        return f"{'changes' if changes else 'data'} of {table}"
    return f"{folder[0]}/" if folder else name


def process_sample(name: str, processes: Iterable[psutil.Process]) -> Sample:
    """Return the resident memory and the open files of processes together."""
    memory = handles = 0
    for process in processes:
        memory += process.memory_info().rss
        handles += process.num_fds()
    return {f"memory of {name} MB": as_mb(memory), f"open files of {name}": handles}


def cpu_ms(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU time that processes have used so far, in ms."""
    return sum(1000 * (times.user + times.system) for times in (process.cpu_times() for process in processes))


def as_mb(size: float) -> float:
    return size / 2**20


def merged(samples: Iterable[Mapping[str, float]]) -> Sample:
    """Return the values of several samples as one."""
    return {measure: value for sample in samples for measure, value in sample.items()}


def medians(samples: Sequence[Sample]) -> Sample:
    """Return the median of each measure."""
    names = dict.fromkeys(measure for sample in samples for measure in sample)
    return {name: median(sample[name] for sample in samples if name in sample) for name in names}
