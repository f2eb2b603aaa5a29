"""Look-ups of keys in large data files, which are read only for rows that are not later than all of their series."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.tables import TBNAME
from headrace.storage import Tables
from headrace.storage.delta import keys
from headrace.storage.delta.series_ends import LatestTimes, may_have_any, series_ends
from tests.storage.samples import METERS, POWER, START, open_tables, read, rows


@pytest.fixture
def meters(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """Tables with files that count as large: d1 has rows up to 9, and d2 up to 4."""
    monkeypatch.setattr(keys, "MAX_CACHED_ROWS", 4)
    meters.writer.write(METERS, POWER, pa.concat_tables([samples("d1", range(10)), samples("d2", range(5))]))
    return meters


def samples(name: str, numbers: range, value: int = 0) -> pa.Table:
    return rows([{"ts": START + number, "a": value, TBNAME: name} for number in numbers])


def stored(tables: Tables) -> dict[tuple[str, int], int]:
    found = read(tables.scan(METERS))
    values = {(row[TBNAME], row["ts"] - START): row["a"] for row in found}
    assert len(values) == len(found)
    return values


def test_rows_later_than_all_of_their_series_are_appended_without_reading(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    first = samples("d2", range(5, 7), 1)
    meters.writer.write(METERS, POWER, first)
    monkeypatch.setattr(keys, "read_data_files", None)
    written = meters.writer.write(METERS, POWER, samples("d2", range(7, 9), 2))
    assert (written.inserted, written.updated) == (2, 0)
    assert [stored(meters)["d2", number] for number in range(3, 9)] == [0, 0, 1, 1, 2, 2]


def test_rows_that_exist_are_updated(meters: Tables) -> None:
    written = meters.writer.write(METERS, POWER, samples("d2", range(4, 6), 3))
    assert (written.inserted, written.updated) == (1, 1)
    assert stored(meters) == {("d1", number): 0 for number in range(10)} | {("d2", n): 3 if n > 3 else 0 for n in range(6)}


def test_the_latest_time_of_each_series_decides() -> None:
    ends = series_ends(pa.concat_tables([samples("d1", range(10)), samples("d2", range(5))]), METERS)
    assert may_have_any(ends, samples("d1", range(9, 12)), METERS)
    assert may_have_any(ends, samples("d1", range(-3, 0)), METERS)
    assert not may_have_any(ends, samples("d1", range(10, 12)), METERS)
    assert not may_have_any(ends, samples("d2", range(5, 10)), METERS)
    assert not may_have_any(ends, samples("d3", range(3)), METERS)


def test_rows_later_than_all_of_their_series_are_looked_for_in_no_file(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    meters.writer.write(METERS, POWER, samples("d2", range(5, 7), 1))
    monkeypatch.setattr(keys, "prune_files", None)
    assert meters.writer.write(METERS, POWER, samples("d2", range(7, 9), 2)).inserted == 2
    assert meters.writer.write(METERS, POWER, samples("d3", range(2), 2)).inserted == 2


def test_files_of_another_writer_are_looked_into(meters: Tables) -> None:
    other = open_tables(Path(meters.uri).parent)
    meters.writer.write(METERS, POWER, samples("d1", range(10, 12), 1))
    other.writer.write(METERS, POWER, samples("d1", range(20, 22), 2))
    written = meters.writer.write(METERS, POWER, samples("d1", range(21, 24), 3))
    assert (written.inserted, written.updated) == (2, 1)
    assert [stored(meters)["d1", number] for number in (11, 20, 21, 23)] == [1, 2, 3, 3]


def test_the_names_of_removed_files_are_forgotten() -> None:
    latest = LatestTimes()
    for path in "abcde":
        latest.add(path, series_ends(samples("d1", range(3)), METERS))
    assert latest.unknown(["a", "f"]) == ["f"]
    assert latest.unknown(list("abcde")) == list("bcde")
    assert latest.may_have_any(samples("d1", range(2, 4)), METERS)
