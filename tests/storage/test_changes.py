from __future__ import annotations

import os

import pytest

from headrace.errors import HistoryGoneError, InternalError
from headrace.storage import CommitSize, Tables
from headrace.storage.delta.log_entries import log_file
from tests.storage.samples import METERS, POWER, read, rows


def seen(tables: Tables, first: int, last: int) -> list[tuple[int, str, int, int]]:
    changes = read(tables.changes.read(METERS, first, last))
    return [(row["_commit_version"], row["_change_type"], row["ts"], row["a"]) for row in changes]


SIZES = [(0, 0), (2, 2), (2, 1), (1, 0)]
"""Changes and written rows of each version."""


@pytest.fixture
def changed(meters: Tables) -> Tables:
    """Version 1 inserts 1 and 2, version 2 updates 2, version 3 deletes 1."""
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}, {"ts": 2, "a": 2}]))
    meters.writer.write(METERS, POWER, rows([{"ts": 2, "a": 20}]))
    meters.writer.delete(METERS, POWER, ranges=[(1, 1)])
    return meters


def test_inserts_updates_and_deletes_are_distinguished(changed: Tables) -> None:
    assert seen(changed, 1, 1) == [(1, "insert", 1, 1), (1, "insert", 2, 2)]
    assert sorted(seen(changed, 2, 2)) == [(2, "update_postimage", 2, 20), (2, "update_preimage", 2, 2)]
    assert seen(changed, 3, 3) == [(3, "delete", 1, 1)]


def test_a_range_of_versions_comes_in_their_order_with_both_ends(changed: Tables) -> None:
    assert changed.changes.read(METERS, 1, 3)["_commit_version"].to_pylist() == [1, 1, 2, 2, 3]
    assert changed.changes.read(METERS, 0, 0).num_rows == 0


def test_changes_have_the_stored_columns_and_two_more(changed: Tables) -> None:
    changes = changed.changes.read(METERS, 2, 3)

    assert changes.schema.names == [*changed.schema(METERS, POWER).names, "_change_type", "_commit_version"]
    assert changes.select(changed.schema(METERS, POWER).names).schema == changed.schema(METERS, POWER)


def test_changes_are_counted_from_the_log(changed: Tables) -> None:
    assert [changed.changes.count(METERS, version, version) for version in range(4)] == [0, 2, 2, 1]
    assert changed.changes.count(METERS, 0, 3) == changed.changes.read(METERS, 0, 3).num_rows
    assert [changed.changes.size(METERS, version) for version in range(4)] == [CommitSize(*size) for size in SIZES]


def test_written_rows_are_counted_without_the_metrics_of_a_commit(changed: Tables) -> None:
    for version in range(4):
        path = log_file(f"{changed.uri}/power/meters/rows", version)
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("operationMetrics", "others"))
    assert [changed.changes.size(METERS, version) for version in range(4)] == [CommitSize(*size) for size in SIZES]


def test_rows_of_a_file_without_statistics_are_counted(changed: Tables) -> None:
    path = log_file(f"{changed.uri}/power/meters/rows", 1)
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace('\\"numRecords\\":2,', ""))

    assert changed.changes.count(METERS, 1, 1) == 2


@pytest.mark.parametrize(("first", "last"), [(2, 1), (-1, 0)])
def test_versions_that_do_not_exist_are_refused(changed: Tables, first: int, last: int) -> None:
    with pytest.raises(InternalError, match="is at version 3"):
        changed.changes.read(METERS, first, last)


def test_reading_vacuumed_changes_names_the_versions_and_a_fix(changed: Tables) -> None:
    changed.maintenance.compact(METERS)
    changed.maintenance.vacuum(METERS, 0)

    with pytest.raises(HistoryGoneError, match=r"power\.meters in version 1 have been removed") as error:
        changed.changes.read(METERS, 0, 2)
    assert "FILL_HISTORY 1" in error.value.hint


def test_reading_changes_with_a_cleaned_log_is_an_error(changed: Tables) -> None:
    with changed._handles.writer(METERS).latest() as delta:
        delta.create_checkpoint()
    for version in (0, 1):
        os.unlink(log_file(f"{changed.uri}/power/meters/rows", version))

    with pytest.raises(HistoryGoneError, match="version 1 have"):
        changed.changes.read(METERS, 1, 3)
    with pytest.raises(HistoryGoneError, match="version 1 have"):
        changed.changes.count(METERS, 1, 3)
    assert changed.changes.read(METERS, 2, 3).num_rows == 3
