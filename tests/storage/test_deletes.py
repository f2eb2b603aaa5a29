from __future__ import annotations

import pytest

from headrace.model.tables import TBNAME, Database
from headrace.model.time import Precision
from headrace.storage import Tables
from tests.storage.samples import METERS, POWER, read, rows


@pytest.fixture
def filled(meters: Tables) -> Tables:
    """Rows at 1 to 5 in each of d1 and d2."""
    meters.writer.write(METERS, POWER, rows([{"ts": ts, "a": ts, TBNAME: name} for name in ("d1", "d2") for ts in range(1, 6)]))
    return meters


def left(tables: Tables) -> list[tuple[str, int]]:
    return [(row[TBNAME], row["ts"]) for row in read(tables.scan(METERS))]


def test_a_range_is_deleted_with_both_its_ends(filled: Tables) -> None:
    assert filled.writer.delete(METERS, POWER, tbnames=["d1"], ranges=[(2, 4)]) == 3
    assert left(filled) == [("d1", 1), ("d1", 5), *(("d2", ts) for ts in range(1, 6))]


def test_several_ranges_are_deleted_in_one_commit(filled: Tables) -> None:
    assert filled.writer.delete(METERS, POWER, ranges=[(1, 1), (5, 5)]) == 4
    assert filled.version(METERS) == 2


def test_without_conditions_every_row_is_deleted(filled: Tables) -> None:
    assert filled.writer.delete(METERS, POWER) == 10
    assert filled.changes.read(METERS, 2, 2)["_change_type"].to_pylist() == ["delete"] * 10
    assert filled.changes.count(METERS, 2, 2) == 10


@pytest.mark.parametrize("nothing", [{"ranges": [(6, 9)]}, {"tbnames": []}, {"ranges": []}, {"tbnames": ["d3"]}])
def test_a_delete_without_matching_rows_makes_no_commit(filled: Tables, nothing: dict[str, list[object]]) -> None:
    assert filled.writer.delete(METERS, POWER, **nothing) == 0  # type: ignore[arg-type]
    assert filled.version(METERS) == 1


def test_names_are_taken_literally(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, TBNAME: "it's"}, {"ts": 1, TBNAME: "its"}]))

    assert meters.writer.delete(METERS, POWER, tbnames=["it's"]) == 1
    assert left(meters) == [("its", 1)]


def test_bounds_beyond_all_timestamps_are_accepted(filled: Tables) -> None:
    assert filled.writer.delete(METERS, POWER, ranges=[(-(2**63), 2**63 - 1)]) == 10


@pytest.mark.parametrize("precision", list(Precision))
def test_ranges_are_in_ticks_of_the_database(tables: Tables, precision: Precision) -> None:
    database = Database("power", precision)
    tables.create(METERS, database)
    tables.writer.write(METERS, database, rows([{"ts": ts} for ts in (1999, 2000, 2001, 2002)], database=database))

    assert tables.writer.delete(METERS, database, ranges=[(2000, 2001)]) == 2
    assert [row["ts"] for row in read(tables.scan(METERS), database=database)] == [1999, 2002]


def test_the_ranges_of_a_delete_are_in_its_commit(filled: Tables) -> None:
    filled.writer.delete(METERS, POWER, tbnames=["d1"], ranges=[(2, 4)])
    filled.writer.delete(METERS, POWER)
    assert [filled.changes.deleted_ranges(METERS, version) for version in (1, 2, 3)] == [
        (),
        ((2, 4),),
        ((-(2**63), 2**63 - 1),),
    ]


def test_values_and_emptied_rows_are_deleted_in_one_commit(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}, {"ts": 2, "a": 2, "b": 20.0}, {"ts": 3, "b": 30.0}]))
    assert meters.writer.clear(METERS, POWER, [("d1", ["a"])], [(1, 3)]) == 2
    assert [(row["ts"], row["a"], row["b"]) for row in read(meters.scan(METERS))] == [(2, None, 20.0), (3, None, 30.0)]
    assert (meters.version(METERS), meters.changes.deleted_ranges(METERS, 2)) == (2, ((1, 3),))


def test_deleting_values_that_are_not_there_makes_no_commit(filled: Tables) -> None:
    assert filled.writer.clear(METERS, POWER, [("d1", ["a"])], [(6, 9)]) == 0
    assert filled.version(METERS) == 1
