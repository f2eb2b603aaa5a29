from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.catalog import Catalog
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.types import DataType, TypeKind
from tests.catalog.samples import definition, plain_table, supertable

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
LENGTHS = st.none() | st.integers(1, 65517)
TYPES = st.builds(DataType, st.sampled_from(TypeKind), LENGTHS, st.none() | st.integers(0, 38))
COLUMNS = st.builds(Column, NAMES, TYPES, st.booleans(), st.none() | NAMES)
COLUMN_LISTS = st.lists(COLUMNS, min_size=1, max_size=5).map(tuple)
numbers = itertools.count()


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=50)
@given(name=NAMES, columns=COLUMN_LISTS, tags=COLUMN_LISTS, kind=st.sampled_from(TableKind))
def test_any_table_comes_back_as_it_was_created(
    catalog: Catalog, name: str, columns: tuple[Column, ...], tags: tuple[Column, ...], kind: TableKind
) -> None:
    database = f"db{next(numbers)}"
    catalog.databases.create(Database(database))
    table = Table(database, name, columns, tags, kind)
    assert catalog.tables.create(table)
    assert catalog.tables.get(database, name) == table
    assert catalog.tables.all(database) == [table]


def test_a_table_needs_its_database(catalog: Catalog) -> None:
    catalog.databases.create(Database("power"))
    with pytest.raises(NotFoundError, match="database powr does not exist") as caught:
        catalog.tables.create(supertable("meters", "powr"))
    assert "power" in caught.value.hint


def test_an_existing_table_is_refused_unless_if_not_exists(power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    with pytest.raises(ExistsError, match=r"table power\.meters exists already"):
        power.tables.create(plain_table("meters"))
    assert not power.tables.create(plain_table("meters"), if_not_exists=True)
    assert power.tables.get("power", "meters").kind is TableKind.SUPER


def test_the_same_name_may_be_used_in_another_database(power: Catalog) -> None:
    power.databases.create(Database("other"))
    assert power.tables.create(supertable("meters"))
    assert power.tables.create(supertable("meters", "other"))


def test_a_table_cannot_take_the_name_of_a_subtable(power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    power.subtables.add("power", "meters", ["d1"])
    for if_not_exists in (False, True):
        with pytest.raises(ExistsError) as caught:
            power.tables.create(plain_table("d1"), if_not_exists)
        assert caught.value.hint == "it is a subtable of meters"


def test_a_plain_table_is_its_own_subtable(power: Catalog) -> None:
    power.tables.create(plain_table("sea"))
    assert power.subtables.get("power", "sea").table == "sea"
    power.tables.drop("power", "sea")
    assert power.subtables.find("power", ["sea"]) == {}


def test_dropping_a_supertable_drops_its_subtables_only(power: Catalog) -> None:
    for table, subtable in (("meters", "m1"), ("sensors", "s1")):
        power.tables.create(supertable(table))
        power.subtables.add("power", table, [subtable])
    power.tables.drop("power", "meters")
    assert [table.name for table in power.tables.all("power")] == ["sensors"]
    assert [subtable.name for subtable in power.subtables.all("power")] == ["s1"]


def test_a_missing_table_is_named_with_the_nearest_table_or_subtable(power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    power.subtables.add("power", "meters", ["kitchen"])
    for name, nearest in (("metres", "meters"), ("kitchn", "kitchen")):
        with pytest.raises(NotFoundError, match=rf"table power\.{name} does not exist") as caught:
            power.tables.get("power", name)
        assert caught.value.hint == f"did you mean power.{nearest}?"
    with pytest.raises(NotFoundError, match=r"table power\.metres"):
        power.tables.drop("power", "metres")


def test_a_table_is_looked_up_without_an_error_if_its_database_exists(power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    assert power.tables.find("power", "meters") == power.tables.get("power", "meters")
    assert power.tables.find("power", "other") is None
    with pytest.raises(NotFoundError):
        power.tables.find("other", "meters")


def test_listing_tables_of_a_missing_database_is_an_error(catalog: Catalog) -> None:
    for ask in (catalog.tables.all, catalog.subtables.all):
        with pytest.raises(NotFoundError, match="database power does not exist"):
            ask("power")
    with pytest.raises(NotFoundError, match="database power does not exist"):
        catalog.tables.get("power", "meters")


@pytest.mark.parametrize("table", ["meters", "averages"])
def test_a_table_cannot_be_dropped_while_a_stream_reads_or_fills_it(power: Catalog, table: str) -> None:
    power.tables.create(supertable("meters"))
    power.tables.create(supertable("averages"))
    power.jobs.create(definition())
    with pytest.raises(IntegrityError, match=r"stream power\.avg_current reads or fills it") as caught:
        power.tables.drop("power", table)
    assert caught.value.hint == "DROP STREAM power.avg_current first"
    power.jobs.drop("id-avg_current")
    power.tables.drop("power", table)
