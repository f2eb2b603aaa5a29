from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.errors import DataError, ExistsError, IntegrityError, NotFoundError
from headrace.model.tables import Database, TableId
from headrace.model.time import Precision
from tests.catalog.samples import definition, supertable


def test_a_database_comes_back_as_it_was_created(catalog: Catalog) -> None:
    database = Database("power", Precision.NANOSECOND, "Europe/Berlin", (("keep", "3650d"), ("vgroups", "4")))
    assert catalog.databases.create(database)
    assert catalog.databases.get("power") == database
    assert catalog.databases.all() == [database]


def test_databases_are_listed_by_code_point(catalog: Catalog) -> None:
    for name in ("b", "B", "_a", "ä", "a"):
        catalog.databases.create(Database(name))
    assert [database.name for database in catalog.databases.all()] == ["B", "_a", "a", "b", "ä"]


def test_an_existing_name_is_refused_unless_if_not_exists(catalog: Catalog) -> None:
    catalog.databases.create(Database("power"))
    with pytest.raises(ExistsError, match="database power exists already"):
        catalog.databases.create(Database("power", Precision.MICROSECOND))
    assert not catalog.databases.create(Database("power", Precision.MICROSECOND), if_not_exists=True)
    assert catalog.databases.get("power").precision is Precision.MILLISECOND


def test_names_are_compared_exactly(catalog: Catalog) -> None:
    assert catalog.databases.create(Database("power"))
    assert catalog.databases.create(Database("Power"))
    with pytest.raises(NotFoundError):
        catalog.databases.get("POWER")


def test_a_missing_database_is_named_with_the_nearest_one(catalog: Catalog) -> None:
    catalog.databases.create(Database("power"))
    catalog.databases.create(Database("weather"))
    with pytest.raises(NotFoundError, match="database pwoer does not exist") as caught:
        catalog.databases.get("pwoer")
    assert caught.value.hint == "did you mean power?"
    with pytest.raises(NotFoundError) as caught:
        catalog.databases.get("zzz")
    assert caught.value.hint == "SHOW DATABASES lists what there is"


def test_dropping_takes_tables_subtables_and_inner_streams_along(power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    power.subtables.add("power", "meters", ["d1"])
    power.jobs.create(definition())
    assert power.databases.drop("power")
    assert power.databases.all() == []
    assert power.jobs.all() == []
    power.databases.create(Database("power"))
    assert power.tables.all("power") == []
    assert power.subtables.all("power") == []


def test_a_missing_database_cannot_be_dropped_unless_if_exists(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError):
        catalog.databases.drop("power")
    assert not catalog.databases.drop("power", if_exists=True)


@pytest.mark.parametrize("target", ["power", "sink"])
def test_a_database_cannot_be_dropped_while_a_stream_crosses_its_border(power: Catalog, target: str) -> None:
    power.databases.create(Database("sink"))
    power.tables.create(supertable("meters"))
    power.jobs.create(definition(target=TableId("sink", "averages")))
    with pytest.raises(IntegrityError, match=r"stream power\.avg_current") as caught:
        power.databases.drop(target)
    assert "DROP STREAM power.avg_current" in caught.value.hint
    power.jobs.drop("id-avg_current")
    assert power.databases.drop(target)


def test_text_that_cannot_be_stored_is_a_data_error(catalog: Catalog) -> None:
    with pytest.raises(DataError):
        catalog.databases.create(Database("half of a pair: \ud800"))
    assert catalog.databases.all() == []


def test_changed_options_replace_those_of_the_same_name(catalog: Catalog) -> None:
    catalog.databases.create(Database("power", options=(("keep", "3650d"), ("vgroups", "4"))))
    catalog.databases.alter("power", [("buffer", "8"), ("keep", "10d")])
    assert catalog.databases.get("power").options == (("keep", "10d"), ("vgroups", "4"), ("buffer", "8"))
    with pytest.raises(NotFoundError, match="powr"):
        catalog.databases.alter("powr", [("keep", "10d")])
