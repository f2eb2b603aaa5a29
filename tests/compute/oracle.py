"""Reference implementation of windows: row by row in plain Python, straight from their definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A row: subtable, instant, value."""

    tbname: str
    ts: int
    a: int | None


class Window(NamedTuple):
    """A window with the aggregates that the tests select. `end` is the value of `_wend`."""

    tbname: str
    start: int
    end: int
    rows: int
    total: int | None
    first: int | None
    last: int | None


Spans = Iterator[tuple[int, int, Sequence[Row]]]


def windows(rows: Iterable[Row], spans: Callable[[list[Row]], Spans]) -> list[Window]:
    """Return the windows of each subtable."""
    ordered = sorted(rows, key=lambda row: (row.tbname, row.ts))
    return [
        summarize(tbname, *span) for tbname, group in groupby(ordered, key=lambda row: row.tbname) for span in spans(list(group))
    ]


def summarize(tbname: str, start: int, end: int, rows: Sequence[Row]) -> Window:
    values = [row.a for row in rows if row.a is not None]
    ends = (values[0], values[-1]) if values else (None, None)
    return Window(tbname, start, end, len(rows), sum(values) if values else None, *ends)


def interval(length: int, sliding: int, offset: int = 0) -> Callable[[list[Row]], Spans]:
    def spans(rows: list[Row]) -> Spans:
        starts: set[int] = set()
        for row in rows:
            latest = row.ts - (row.ts - offset) % sliding
            starts.update(range(latest, row.ts - length, -sliding))
        for start in sorted(starts):
            yield start, start + length, [row for row in rows if start <= row.ts < start + length]

    return spans


def split_runs(rows: list[Row], breaks: Callable[[Row, Row], bool]) -> Spans:
    """Split rows where `breaks` holds for a row and its successor."""
    begin = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or breaks(rows[end - 1], rows[end]):
            part = rows[begin:end]
            yield part[0].ts, part[-1].ts, part
            begin = end


def session(gap: int) -> Callable[[list[Row]], Spans]:
    return lambda rows: split_runs(rows, lambda before, row: row.ts - before.ts > gap)


def state(rows: list[Row]) -> Spans:
    with_state = [row for row in rows if row.a is not None]
    return split_runs(with_state, lambda before, row: before.a != row.a) if with_state else iter(())


def event(opens: Callable[[int], bool], closes: Callable[[int], bool]) -> Callable[[list[Row]], Spans]:
    def spans(rows: list[Row]) -> Spans:
        opened: list[Row] = []
        for row in rows:
            if opened or (row.a is not None and opens(row.a)):
                opened.append(row)
                if row.a is not None and closes(row.a):
                    yield opened[0].ts, row.ts, opened
                    opened = []

    return spans


def count(size: int, sliding: int) -> Callable[[list[Row]], Spans]:
    def spans(rows: list[Row]) -> Spans:
        for begin in range(0, len(rows), sliding):
            part = rows[begin : begin + size]
            yield part[0].ts, part[-1].ts, part

    return spans


def to_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]
