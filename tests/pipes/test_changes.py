"""The events of change feeds: applied in order to what a receiver has, they give what the table has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.time import Precision
from headrace.model.types import BIGINT, DOUBLE
from headrace.pipes.changes import TableLayout, change_events
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, Event, InsertEvent, Measurement
from headrace.storage.delta.change_columns import COMMIT_VERSION, changes_schema

MEASUREMENTS = ("a", "b")
LAYOUT = TableLayout(
    "root.plant",
    Precision.MILLISECOND,
    "time",
    "device",
    {"a": Measurement("a", DOUBLE), "b": Measurement("b", BIGINT)},
)
STORED = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("a", pa.float64()),
        ("b", pa.int64()),
        ("unused", pa.int64()),
        ("device", pa.string()),
    ]
)
Key = tuple[str, int]
Row = tuple[Any, ...]
Rows = dict[Key, Row]

keys = st.tuples(st.sampled_from(["root.plant.d1", "root.plant.d2"]), st.integers(0, 3))
values = st.tuples(st.none() | st.sampled_from([0.5, 1.5]), st.none() | st.integers(1, 2))
versions = st.lists(st.dictionaries(keys, st.none() | values, min_size=1, max_size=5), min_size=1, max_size=6)


def change_rows(before: Rows, version: int, change: dict[Key, Row | None]) -> tuple[list[dict[str, Any]], Rows]:
    """Return the rows of a version in the change feed, and what the table has after it."""
    feed, after = [], dict(before)

    def add(kind: str, key: Key, row: Row) -> None:
        time = key[1] * 1_000
        names = dict(zip(MEASUREMENTS, row, strict=True))
        feed.append({"time": time, "device": key[0], "unused": None, "_change_type": kind, COMMIT_VERSION: version} | names)

    for key, row in change.items():
        if row is None or row == (None, None):
            if key in after:
                add("delete", key, after.pop(key))
        elif key in before:
            add("update_postimage", key, row)
            add("update_preimage", key, before[key])
            after[key] = row
        else:
            add("insert", key, row)
            after[key] = row
    return feed, after


def apply(points: dict[tuple[str, int, str], Any], event: Event) -> None:
    """Apply an event to the points of a receiver. Each of its values must change something."""
    assert isinstance(event, InsertEvent | DeleteEvent)
    for row in event.data.rows.to_pylist():
        for column, measurement in event.data.columns.items():
            point = (row[DEVICE], row[TIME], measurement.name)
            if row[column] is None:
                continue
            if isinstance(event, DeleteEvent):
                assert points.pop(point) == row[column]
            else:
                assert points.get(point) != row[column]
                points[point] = row[column]


def points_of(rows: Rows) -> dict[tuple[str, int, str], Any]:
    """Return the values that a table has, by device, time and measurement."""
    return {
        (device, time, name): value
        for (device, time), row in rows.items()
        for name, value in zip(MEASUREMENTS, row, strict=True)
        if value is not None
    }


@given(versions)
@settings(max_examples=150, deadline=None)
def test_events_in_order_lead_to_the_contents_of_the_table(history: list[dict[Key, Row | None]]) -> None:
    stored: Rows = {}
    feed: list[dict[str, Any]] = []
    for version, change in enumerate(history, start=1):
        rows, stored = change_rows(stored, version, change)
        feed += rows
    changes = pa.Table.from_pylist(feed, changes_schema(STORED))
    received: dict[tuple[str, int, str], Any] = {}
    for event in change_events(changes, LAYOUT):
        apply(received, event)
    assert received == points_of(stored)


def test_a_row_that_another_writer_has_moved_is_deleted_and_inserted() -> None:
    feed = [
        {"time": 1_000, "a": 1.5, "device": "root.plant.d1", "_change_type": "update_preimage", COMMIT_VERSION: 1},
        {"time": 2_000, "a": 1.5, "device": "root.plant.d1", "_change_type": "update_postimage", COMMIT_VERSION: 1},
    ]
    deleted, inserted = change_events(pa.Table.from_pylist(feed, changes_schema(STORED)), LAYOUT)
    assert isinstance(deleted, DeleteEvent)
    assert isinstance(inserted, InsertEvent)
    assert deleted.data.rows[TIME].to_pylist() == [1]
    assert inserted.data.rows[TIME].to_pylist() == [2]


def test_versions_that_only_write_are_one_event_in_their_order() -> None:
    feed = [
        {"time": 1_000, "a": float(version), "device": "root.plant.d1", "_change_type": "insert", COMMIT_VERSION: version}
        for version in (1, 2, 3)
    ]
    (event,) = change_events(pa.Table.from_pylist(feed, changes_schema(STORED)), LAYOUT)
    assert isinstance(event, InsertEvent)
    assert event.data.rows["a"].to_pylist() == [1.0, 2.0, 3.0]
    assert list(event.data.columns) == ["a"]


def test_new_rows_and_updates_of_a_version_are_in_the_order_of_time() -> None:
    feed = [
        {"time": time * 1_000, "a": value, "device": "root.plant.d1", "_change_type": kind, COMMIT_VERSION: version}
        for time, value, kind, version in (
            (9, 1.0, "insert", 1),
            (1, 2.0, "insert", 2),
            (3, 2.0, "insert", 2),
            (2, 1.0, "update_preimage", 2),
            (2, 2.0, "update_postimage", 2),
        )
    ]
    (event,) = change_events(pa.Table.from_pylist(feed, changes_schema(STORED)), LAYOUT)
    assert isinstance(event, InsertEvent)
    assert event.data.rows[TIME].to_pylist() == [9, 1, 2, 3]
