"""Data files: which columns are dictionaries, their types, and what the log says of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.storage.delta.row_order import Array, decoded, least_and_greatest, sort_rows, with_encoded_series
from headrace.storage.delta.staged_files import MAX_PLAIN_ROWS, is_distinct, write_file
from headrace.storage.types import MICROSECONDS
from tests.storage.samples import METERS

ROWS = 4 * MAX_PLAIN_ROWS
SERIES = 8


def many_rows(count: int = ROWS) -> pa.Table:
    """Return rows of eight series with a measurement that repeats and one that does not, in the order of time."""
    numbers = np.arange(count)
    return pa.table(
        {
            "ts": pa.array(numbers // SERIES * 1_000, MICROSECONDS),
            "state": pa.array(numbers % 5),
            "noise": pa.array(np.random.default_rng(7).normal(size=count)),
            "tbname": pa.array([f"d{number % SERIES}" for number in numbers]),
        }
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(ROWS), True),
        (np.arange(ROWS) % 50, False),
        (np.arange(ROWS) // 100, False),
        (np.arange(ROWS) % 200, False),
        (np.arange(3), True),
        (np.zeros(1), True),
    ],
    ids=["numbers", "near", "runs", "far apart", "three rows", "one row"],
)
def test_values_are_distinct_unless_they_repeat_near_or_far(values: Array, expected: bool) -> None:
    assert is_distinct(pa.chunked_array([values])) is expected


def test_a_large_file_has_dictionaries_of_columns_that_repeat(tmp_path: Path) -> None:
    file = write_file(str(tmp_path), with_encoded_series(many_rows(), "tbname"), METERS)
    group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    assert {name for name, column in columns.items() if column.has_dictionary_page} == {"ts", "state", "tbname"}


@pytest.mark.parametrize("count", [SERIES, ROWS])
def test_a_file_has_the_stored_types_whether_the_series_are_encoded_or_not(tmp_path: Path, count: int) -> None:
    rows = many_rows(count)
    plain, encoded = (write_file(str(tmp_path), part, METERS) for part in (rows, with_encoded_series(rows, "tbname")))
    assert pq.read_table(tmp_path / plain.path) == pq.read_table(tmp_path / encoded.path) == rows
    assert (encoded.statistics, encoded.times, encoded.names) == (plain.statistics, plain.times, plain.names)
    assert json.loads(encoded.statistics)["maxValues"]["tbname"] == encoded.names[1] == f"d{SERIES - 1}"


def test_rows_are_sorted_by_the_names_of_series_and_then_time() -> None:
    rows = many_rows(200)
    parts = pa.concat_tables([with_encoded_series(rows.slice(start, 50), "tbname") for start in (100, 150, 0, 50)])
    assert decoded(sort_rows(parts, "tbname", "ts")) == rows.sort_by([("tbname", "ascending"), ("ts", "ascending")])


def test_the_least_and_greatest_of_a_dictionary_are_those_of_its_rows() -> None:
    encoded = pa.chunked_array([pa.array(["a", "c", "b", "d"]).dictionary_encode()]).slice(1, 2)
    assert least_and_greatest(encoded).as_py() == {"min": "b", "max": "c"}
