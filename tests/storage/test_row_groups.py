"""Reading the rows of a few series out of data files that hold many."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from headrace.model.tables import TBNAME
from headrace.storage import Tables
from headrace.storage.delta import row_groups
from headrace.storage.delta.row_groups import may_contain, read_footer
from tests.storage.samples import METERS, POWER, START, rows

SYSTEM = pafs.LocalFileSystem()
NAMES = [f"d{number}" for number in range(8)]


@pytest.fixture
def compacted(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """Tables with a file that was compacted from commits of eight subtables, with a row group for each two of them."""
    monkeypatch.setattr("headrace.storage.delta.staged_files.ROW_GROUP_ROWS", 6)
    for time in range(3):
        meters.writer.write(METERS, POWER, rows([{"ts": START + time, TBNAME: name, "a": time} for name in NAMES]))
    assert meters.maintenance.compact(METERS) == 3
    return meters


def scan(tables: Tables, names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches(list(tables.batches(METERS, ["a", TBNAME], names, None)))


def test_only_row_groups_that_may_hold_the_series_are_read(compacted: Tables) -> None:
    assert set(scan(compacted, ["d5"])[TBNAME].to_pylist()) == {"d4", "d5"}
    assert set(scan(compacted, ["d0", "d7"])[TBNAME].to_pylist()) == {"d0", "d1", "d6", "d7"}
    assert scan(compacted, NAMES).num_rows == 24
    assert compacted.scan(METERS, tbnames=["d5"])["a"].to_pylist() == [0, 1, 2]
    assert compacted.scan(METERS, tbnames=["d55"]).num_rows == 0


def test_the_footer_of_a_file_is_read_once(compacted: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def spy(uri: str, *arguments: Any, **options: Any) -> row_groups.GroupedFile:
        read.append(uri)
        return read_footer(uri, *arguments, **options)

    monkeypatch.setattr(row_groups, "read_footer", spy)
    for name in NAMES:
        assert scan(compacted, [name]).num_rows == 6
    assert len(read) == 1
    compacted.writer.write(METERS, POWER, rows([{"ts": START + 9, TBNAME: "d5", "a": 9}]))
    assert 9 in scan(compacted, ["d5"])["a"].to_pylist()
    assert len(read) == 2


def write_groups(path: Path, names: Sequence[str], **options: Any) -> str:
    pq.write_table(pa.table({TBNAME: names}), path, row_group_size=1, **options)
    return str(path)


def test_row_groups_without_statistics_may_hold_any_series(tmp_path: Path) -> None:
    path = write_groups(tmp_path / "plain.parquet", ["d1", "d2"], write_statistics=False)
    file = read_footer(path, SYSTEM, TBNAME, encoded=False)
    assert file.ranges == (None, None)
    assert file.select(["other"]) is file.fragment


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], False), (["a"], False), (["b"], True), (["a", "d"], False), (["a", "c", "d"], True), (["cc"], False)],
)
def test_a_range_may_contain_a_name_within_its_ends(names: list[str], expected: bool) -> None:
    assert may_contain(("b", "c"), names) is expected


@pytest.mark.parametrize(("columns", "groups"), [(3, 1), (7, 1), (40, 1), (7, 20)])
def test_footers_count_the_memory_that_they_take(columns: int, groups: int, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    values = {f"c{number}": pa.array([1.0, 2.0] * groups) for number in range(1, columns)}
    pq.write_table(pa.table({TBNAME: pa.array(["a", "b"] * groups)} | values), path, row_group_size=2)
    before = allocated_bytes()
    footers = [read_footer(path, SYSTEM, TBNAME, encoded=False) for _ in range(500)]
    assert 0.7 < (allocated_bytes() - before) / sum(footer.bytes for footer in footers) < 1.3


def allocated_bytes() -> int:
    """Return what C and C++ have allocated in this process and not freed."""
    gc.collect()
    names = "arena chunks fast maps mapped used fastfree live free top"
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = type("Mallinfo2", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in names.split()]})
    info = mallinfo2()
    return int(info.live + info.mapped)
