from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, NotFoundError, ProgrammingError
from tests.catalog.samples import plain_table, supertable


@pytest.fixture
def meters(power: Catalog) -> Catalog:
    power.tables.create(supertable("meters"))
    return power


def test_each_name_is_added_once(meters: Catalog) -> None:
    meters.subtables.add("power", "meters", ["d2", "d1", "d2", 'it\'s "odd"'])
    added = meters.subtables.all("power")
    assert [subtable.name for subtable in added] == ["d1", "d2", 'it\'s "odd"']
    assert all(subtable.table == "meters" and subtable.database == "power" for subtable in added)


def test_names_that_exist_are_passed_over(meters: Catalog) -> None:
    meters.subtables.add("power", "meters", ["d2", "d3"])
    before = meters.subtables.get("power", "d2")
    meters.subtables.add("power", "meters", ["d3", "d1", "d2"])
    meters.subtables.add("power", "meters", ["d1"])
    assert meters.subtables.get("power", "d2") == before
    assert [subtable.name for subtable in meters.subtables.all("power", "meters")] == ["d1", "d2", "d3"]


def test_of_many_names_the_new_ones_are_added(meters: Catalog) -> None:
    names = [f"d{number:03}" for number in range(100)]
    for added in (names[10:40], names[:11], names[10:30], [*names[50:], *names[:3]], names[::-1]):
        meters.subtables.add("power", "meters", added)
        assert meters.subtables.missing("power", added) == []
    assert [subtable.name for subtable in meters.subtables.all("power")] == names


def test_ten_thousand_subtables_have_as_many_positive_uids_of_63_bits(meters: Catalog) -> None:
    names = [f"d{number}" for number in range(10_000)]
    meters.subtables.add("power", "meters", names)
    added = meters.subtables.find("power", [*names, "none"])
    uids = {subtable.uid for subtable in added.values()}
    assert len(uids) == 10_000
    assert min(uids) > 0
    assert max(uids) < 2**63
    assert sorted(added) == sorted(names)
    meters.subtables.drop("power", names)
    assert meters.subtables.all("power") == []


def test_a_recreated_subtable_has_the_same_uid(meters: Catalog) -> None:
    meters.subtables.add("power", "meters", ["d1"])
    uid = meters.subtables.get("power", "d1").uid
    meters.subtables.drop("power", ["d1"])
    meters.subtables.add("power", "meters", ["d1"])
    assert meters.subtables.get("power", "d1").uid == uid


def test_names_without_a_subtable_are_missing(meters: Catalog) -> None:
    meters.subtables.add("power", "meters", ["d1", 'it\'s "odd"'])
    assert sorted(meters.subtables.missing("power", ["d3", "d1", 'it\'s "odd"', "d2"])) == ["d2", "d3"]
    assert meters.subtables.missing("power", []) == []


def test_a_name_of_another_table_is_refused_and_none_is_added(meters: Catalog) -> None:
    meters.tables.create(supertable("sensors"))
    meters.subtables.add("power", "sensors", ["s1"])
    with pytest.raises(ExistsError, match=r"table power\.s1 exists already") as caught:
        meters.subtables.add("power", "meters", ["d1", "s1"])
    assert caught.value.hint == "it is a subtable of sensors, not of meters"
    assert meters.subtables.find("power", ["d1"]) == {}


@pytest.mark.parametrize("name", ["meters", "sea"])
def test_a_subtable_cannot_take_the_name_of_a_table(meters: Catalog, name: str) -> None:
    meters.tables.create(plain_table("sea"))
    with pytest.raises(ExistsError):
        meters.subtables.add("power", "meters", ["d1", name])
    assert meters.subtables.find("power", ["d1"]) == {}


def test_a_plain_table_takes_no_subtables(meters: Catalog) -> None:
    meters.tables.create(plain_table("sea"))
    meters.subtables.add("power", "sea", ["sea"])
    assert [subtable.name for subtable in meters.subtables.all("power", "sea")] == ["sea"]
    with pytest.raises(ProgrammingError, match="plain table"):
        meters.subtables.add("power", "sea", ["sea", "d1"])
    with pytest.raises(ProgrammingError, match="plain table"):
        meters.subtables.drop("power", ["sea"])


def test_subtables_need_their_table(meters: Catalog) -> None:
    with pytest.raises(NotFoundError, match=r"table power\.metres does not exist") as caught:
        meters.subtables.add("power", "metres", ["d1"])
    assert caught.value.hint == "did you mean power.meters?"
    with pytest.raises(NotFoundError, match=r"table power\.metres does not exist"):
        meters.subtables.all("power", "metres")


def test_a_missing_subtable_is_named_with_the_nearest_one(meters: Catalog) -> None:
    meters.subtables.add("power", "meters", ["kitchen"])
    assert meters.subtables.get("power", "kitchen").table == "meters"
    with pytest.raises(NotFoundError, match=r"table power\.kitchn does not exist") as caught:
        meters.subtables.get("power", "kitchn")
    assert caught.value.hint == "did you mean power.kitchen?"


def test_dropping_a_missing_subtable_drops_none(meters: Catalog) -> None:
    meters.subtables.add("power", "meters", ["d1"])
    with pytest.raises(NotFoundError, match=r"table power\.d2 does not exist"):
        meters.subtables.drop("power", ["d1", "d2"])
    assert [subtable.name for subtable in meters.subtables.all("power")] == ["d1"]
