"""The latest windows of a stream, for those who look at it: from its target, its last checkpoints, and its notes.

Nothing here needs Spark. What is read is bounded: the target's rows of a few subtables from an instant on, and checkpoints that
are not large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import UnsupportedError
from headrace.compute.plan import WEND, WSTART
from headrace.context import Context
from headrace.errors import Error, NotSupportedError
from headrace.model.job_parts import part_ids, parts_of
from headrace.model.jobs import JobRecord
from headrace.model.window_notes import WindowNote
from headrace.model.windows import WindowGrid
from headrace.storage import Bounds
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan, plan_recorded_stream
from headrace.streams.definition.groups import AUTO_NAME
from headrace.streams.definition.layout import GROUP_ID
from headrace.streams.sinks.target_groups import TargetGroups
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.store import StateStore
from headrace.streams.windows.change_batch import to_numpy
from headrace.streams.windows.emission import EmitState
from headrace.streams.windows.evaluation import window_evaluation
from headrace.streams.windows.window_sql import EMITTED

MAX_LISTED_SERIES: Final = 200
"""Subtables of the target from which a user can choose, and values of each tag."""
MAX_SERIES: Final = 12
"""A target with more subtables is read one subtable at a time."""
MAX_STATE_BYTES: Final = 16 << 20
"""A larger checkpoint is not read."""
MAX_STATE_WINDOWS: Final = 5_000
MAX_READ_ROWS: Final = 2_000_000
"""Rows of the data files from which the target's rows are read, by statistics; row groups of other subtables are passed over."""
FIRST_SPAN_MS: Final = 600_000
"""How far back the first read of the target goes if the length of windows is not fixed."""
GROWTH: Final = 8
"""How much further back each next read goes, until there are enough windows."""


@dataclass(frozen=True, slots=True)
class TimelineWindow:
    """One window. Instants are epoch milliseconds.

    Attributes:
        series: The subtable of the target.
        end: Its end; None if nothing says when it ends. For INTERVAL it is exclusive, else it is the last row's.
        is_closed: Whether the watermark has passed it.
        is_written: Whether the target has its present value.
        values: Its values, in the order of `Timeline.columns`; None if they are not known.
        recalculated: How often it was computed again, as far as it is noted.
        late_rows: Expired rows that were left out of it, as far as they are noted.
        changed: When one of the latter happened last.
    """

    series: str
    start: int
    end: int | None
    is_closed: bool
    is_written: bool
    values: tuple[Any, ...] | None
    recalculated: int = 0
    late_rows: int = 0
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class TimelineChoice:
    """Which windows are read.

    Attributes:
        series: A subtable of the target; None for all, if these are few.
        tag: A tag of the target and its value as text, which the subtables have; None for all subtables.
        before: Where the windows start before, in epoch milliseconds; None for the latest.
    """

    series: str | None = None
    tag: tuple[str, str] | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Windows of some subtables, the last one first.

    Attributes:
        series: Subtables to choose from, of those with the chosen value of a tag.
        tags: Values to choose from as text, by tag; tags with one value are left out.
        labels: The tags of those subtables whose names are only hashes of their groups.
        chosen: The one whose windows these are; None if they are those of all.
        columns: The names of the values.
        watermark: Epoch milliseconds; None before the first row.
        is_state_read: False if the checkpoint, or that of a part, is missing or too large, so that not all windows
            that are not written are known.
        earlier: Where the first one starts, if there are windows before it.
    """

    series: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, str]
    chosen: str | None
    columns: tuple[str, ...]
    watermark: int | None
    is_state_read: bool
    windows: tuple[TimelineWindow, ...]
    earlier: int | None


def read_timeline(context: Context, record: JobRecord, choice: TimelineChoice, limit: int) -> Timeline:
    """Return the last `limit` windows of a subtable of a stream's target, or of all if these are few.

    Raises:
        NotSupportedError: The stream has no windows.
        Error: It cannot be planned, or the storage failed.
    """
    plan = plan_recorded_stream(record.definition, context.catalog, context.settings)
    if plan.query.window is None:
        raise NotSupportedError(f"{plan.name} has no windows", hint="its results are rows of their own")
    listed, tags, labels = subtables_with_tags(context, plan, choice.tag)
    series = choice.series
    chosen = series if series is not None or len(listed) <= MAX_SERIES else listed[0]
    timeline = TimelineReader(context, plan, record, choice).read(listed, chosen, limit)
    return replace(timeline, tags=tags, labels=labels)


def subtables_with_tags(
    context: Context, plan: StreamPlan, tag: tuple[str, str] | None
) -> tuple[list[str], dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the first subtables of a target, of those that have a value of a tag; the first values of each tag; and the labels.

    Tags are read as by each query of the target, which keeps them until they change.
    """
    listed = context.catalog.subtables.first(plan.target_database.name, plan.target.name, MAX_LISTED_SERIES)
    if not listed or not plan.target.tags:
        return listed, {}, {}
    stored = context.tables.tags.read(plan.target)
    named = [one.name for one in plan.target.tags if one.name != GROUP_ID]
    texts = {name: text for name in named if (text := as_text(stored[name])) is not None}
    distinct = {name: text.unique().drop_null() for name, text in texts.items()}
    tags = {name: tuple(first_sorted(values)) for name, values in distinct.items() if len(values) > 1}
    series = stored[plan.target.series_key]
    if tag is not None:
        listed = first_sorted(series.filter(pc.equal(texts[tag[0]], tag[1]))) if tag[0] in texts else []
    return listed, tags, labels_of(listed, series, list(texts.values()))


def labels_of(listed: Sequence[str], series: pa.ChunkedArray, texts: Sequence[pa.ChunkedArray]) -> dict[str, str]:
    """Return the tags of those listed subtables whose names are hashes, as one text for each."""
    names = pa.array(listed, pa.string())
    hashes = names.filter(pc.match_substring_regex(names, AUTO_NAME))
    if not texts or not len(hashes):
        return {}
    index = pc.index_in(hashes, series.cast(pa.string()))
    parts = [text.take(index).combine_chunks().fill_null("NULL") for text in texts]
    labels = pc.binary_join_element_wise(*parts, ", ")
    return dict(zip(hashes.to_pylist(), labels.to_pylist(), strict=True))


def first_sorted(values: pa.Array | pa.ChunkedArray) -> list[str]:
    return list(values.take(pc.sort_indices(values)[:MAX_LISTED_SERIES]).to_pylist())


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return the values of a tag as text; None if they have none, such as bytes."""
    try:
        return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


class TimelineReader:
    """Reads the windows of one stream."""

    def __init__(self, context: Context, plan: StreamPlan, record: JobRecord, choice: TimelineChoice) -> None:
        self.context, self.plan, self.record, self.choice = context, plan, record, choice
        self.ticks_per_ms = plan.query.precision.ticks_per_second / 1000

    def read(self, listed: Sequence[str], chosen: str | None, limit: int) -> Timeline:
        read = self.read_states()
        states = [state for state in read if state is not None]
        is_state_read = len(states) == len(read)
        ends = [end for state in states if (end := state.closed_until(self.plan.watermark)) is not None]
        closed_until = min(ends, default=None) if is_state_read else self.record.progress.watermark
        # Without a choice there may be groups that have no subtable yet.
        only = [chosen] if chosen is not None else None if self.choice.tag is None else list(listed)
        stored = self.read_target(listed if only is None else only, limit + 1, closed_until)
        windows = {(window.series, window.start): window for window in stored}
        for state in states:
            self.add_state(windows, state, only)
        first = min((start for _, start in windows), default=None)
        noted = [note for id in part_ids(self.record.definition) for note in self.context.catalog.window_notes.all(id)]
        notes = [note for note in noted if only is None or note.series in only]
        with_notes = add_notes(windows, [note for note in notes if first is None or self.ms(note.start) >= first], self)
        shown = [window for window in with_notes if self.choice.before is None or window.start < self.choice.before]
        latest, earlier = cut_page(sorted(shown, key=lambda window: (window.start, window.series), reverse=True), limit)
        watermark = None if closed_until is None else self.ms(closed_until)
        series = sorted({*listed, *(window.series for window in latest)}) if chosen is None else listed
        return Timeline(tuple(series), {}, {}, chosen, self.plan.columns[1:], watermark, is_state_read, tuple(latest), earlier)

    def ms(self, ticks: int) -> int:
        """Convert ticks of the source to epoch milliseconds."""
        return int(ticks // self.ticks_per_ms)

    @property
    def regular_grid(self) -> WindowGrid | None:
        """The windows if all have one length."""
        grid = None if self.plan.query.window is None else self.plan.query.window.grid(self.plan.query)
        return grid if isinstance(grid, WindowGrid) else None

    def first_span_ms(self, limit: int, series_count: int) -> int:
        """Return how far back the target is read at first: as far as it takes if each subtable has all windows."""
        grid = self.regular_grid
        return FIRST_SPAN_MS if grid is None else self.ms(grid.step * limit) // series_count + 1

    def end_of(self, start: int) -> int | None:
        """Return the end of the window that starts at an instant (ms), exclusive; None if its length is not fixed."""
        grid = self.regular_grid
        return None if grid is None else start + max(self.ms(grid.length), 1)

    def read_target(self, names: Sequence[str], limit: int, closed_until: int | None) -> list[TimelineWindow]:
        """Return windows that the target has, at least `limit` if there are as many, unless they are too many rows to read."""
        tables, target = self.context.tables, self.plan.target
        extent = tables.bounds(target) if names else None
        if extent is None:
            return []
        unit = (
            stored_units_per_tick(self.plan.target_database.precision)
            * self.plan.target_database.precision.ticks_per_second
            // 1000
        )
        before = self.choice.before
        high = extent.high if before is None else min(extent.high, before * unit - 1)
        if high < extent.low:
            return []
        rows, span = None, self.first_span_ms(limit, len(names)) * unit
        while True:
            bounds = Bounds(max(high - span, extent.low), high)
            scanned = tables.count_scanned(target, names, bounds)
            if rows is not None and (scanned or 0) > MAX_READ_ROWS:
                break
            columns = [target.series_key, *self.plan.columns]
            rows = tables.scan(target, columns=columns, tbnames=names, bounds=bounds)
            if rows.num_rows >= limit or bounds.low == extent.low:
                break
            span *= GROWTH
        return self.stored_windows(rows, limit, closed_until)

    def stored_windows(self, rows: pa.Table, limit: int, closed_until: int | None) -> list[TimelineWindow]:
        starts = epoch_ms(rows[self.plan.columns[0]])
        last = rows.take(pa.array(np.argsort(starts, kind="stable")[-limit:]))
        values = plain_rows([last[name] for name in self.plan.columns[1:]])
        closed_ms = None if closed_until is None else self.ms(closed_until)
        return [
            TimelineWindow(name, start, end := self.end_of(start), has_ended(start, end, closed_ms), True, own)
            for name, start, own in zip(
                last[self.plan.target.series_key].to_pylist(), epoch_ms(last[self.plan.columns[0]]).tolist(), values, strict=True
            )
        ]

    def read_states(self) -> list[StreamState | None]:
        """Return the state of each part at its position; None if there is none, or it was just replaced, or all are large."""
        parts = [(StateStore(self.context.state_uri, one.definition.id, 0), one.progress.position) for one in parts_of(self.record)]
        if sum(store.size() for store, _ in parts) > MAX_STATE_BYTES:
            return [None] * len(parts)
        return [None if position is None else read_or_none(store, position.batch) for store, position in parts]

    def add_state(self, windows: dict[tuple[str, int], TimelineWindow], state: StreamState, only: Sequence[str] | None) -> None:
        """Add the windows in state: their ends, and the values of those that the target does not have."""
        if state.windows is None or state.windows.num_rows == 0:
            return
        closed_until = state.closed_until(self.plan.watermark)
        in_state = state.windows.to_table()
        in_state = in_state.take(pa.array(np.argsort(to_numpy(in_state[WSTART]))[-MAX_STATE_WINDOWS:]))
        series = TargetGroups(self.context, self.plan).identify(in_state)[1]
        selected = pc.is_valid(series) if only is None else pc.is_in(series, pa.array(only, pa.string()))
        in_state, series = in_state.filter(selected), series.filter(selected)
        values = self.state_values(in_state)
        columns = [in_state[name].to_pylist() for name in (WSTART, WEND, EMITTED)]
        for index, (name, start, end, emitted) in enumerate(zip(series.to_pylist(), *columns, strict=True)):
            start_ms = self.ms(start)
            stored = windows.get((name, start_ms))
            is_written = emitted >= EmitState.CURRENT and stored is not None
            own = stored.values if stored is not None and (is_written or values is None) else values[index] if values else None
            is_closed = closed_until is not None and end < closed_until
            end_ms = self.end_of(start_ms) or self.ms(end)
            windows[name, start_ms] = TimelineWindow(name, start_ms, end_ms, is_closed, is_written, own)

    def state_values(self, in_state: pa.Table) -> list[tuple[Any, ...]] | None:
        """Return the values that windows in state have now; None if only Spark can compute them."""
        kernels = window_evaluation(self.context, self.plan).kernels
        if kernels is None or in_state.num_rows == 0:
            return None
        with suppress(NotSupportedError, UnsupportedError):
            finished = kernels.finish(kernels.carried(in_state))
            return plain_rows([finished[f"o{index}"] for index in range(1, len(self.plan.columns))])
        return None


def read_or_none(store: StateStore, batch: int) -> StreamState | None:
    with suppress(Error):
        return store.read(batch)
    return None


def cut_page(windows: list[TimelineWindow], limit: int) -> tuple[list[TimelineWindow], int | None]:
    """Return about `limit` windows, the last ones first, and where the first of these starts if there are earlier ones.

    None of them starts when one does that is left out.
    """
    if len(windows) <= limit:
        return windows, None
    page = [window for window in windows[:limit] if window.start > windows[limit].start] or windows[:limit]
    return page, page[-1].start


def add_notes(
    windows: dict[tuple[str, int], TimelineWindow], notes: Iterable[WindowNote], reader: TimelineReader
) -> list[TimelineWindow]:
    """Return windows with what is noted of them. Rows that were too late for a window that is not there get one of their own."""
    for note in notes:
        start, end = reader.ms(note.start), reader.ms(note.end)
        own = windows.get((note.series, start)) or next(
            (one for one in windows.values() if contains(one, note.series, start)), None
        )
        if own is None:
            own = TimelineWindow(note.series, start, reader.end_of(start) or end, True, False, None)
        windows[own.series, own.start] = replace(
            own,
            recalculated=own.recalculated + note.recalculated,
            late_rows=own.late_rows + note.late_rows,
            changed=max(note.time, own.changed or 0),
        )
    return list(windows.values())


def contains(window: TimelineWindow, series: str, instant: int) -> bool:
    return window.series == series and window.end is not None and window.start <= instant <= window.end


def has_ended(start: int, end: int | None, closed_until: int | None) -> bool:
    """Return whether a window of the target is closed; one without a known end is not in state, or its end is set from there."""
    return closed_until is not None and (start < closed_until if end is None else end <= closed_until)


def epoch_ms(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Convert timestamps to epoch milliseconds, rounding down."""
    per_ms = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    return np.asarray(to_numpy(column.cast(pa.int64())) // per_ms, np.int64)


def plain_rows(columns: Sequence[pa.ChunkedArray]) -> list[tuple[Any, ...]]:
    """Return rows as values of JSON: numbers, booleans and NULL as they are, others as text."""
    return list(zip(*([plain(value) for value in column.to_pylist()] for column in columns), strict=True)) if columns else []


def plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
