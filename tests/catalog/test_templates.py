"""Device templates in the catalog: names, paths, and the devices that they extend."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.tables import Column, Database
from headrace.model.trees import Device, DeviceTemplate, NewSeries, Timeseries, tree_table
from headrace.model.types import BIGINT, DOUBLE

S1 = NewSeries("s1", BIGINT)
S2 = NewSeries("s2", DOUBLE, "RLE", "SNAPPY")
T1 = DeviceTemplate("t1", (S1,), aligned=True)


@pytest.fixture
def plant(catalog: Catalog) -> Catalog:
    """The catalog with the databases `root.plant` and `root.other` and the template `t1`."""
    for name in ("root.plant", "root.other"):
        catalog.databases.create(Database(name))
        catalog.tables.create(tree_table(name))
    catalog.templates.create(T1)
    return catalog


def test_templates_keep_the_order_of_their_creation(plant: Catalog) -> None:
    other = DeviceTemplate("a", (S1, S2))
    plant.templates.create(other)
    assert plant.templates.all() == [T1, other]
    assert plant.templates.get("a") == other
    with pytest.raises(ExistsError, match="Duplicated template name: a"):
        plant.templates.create(DeviceTemplate("a"))
    plant.templates.drop("a")
    with pytest.raises(NotFoundError, match="Template a does not exist"):
        plant.templates.get("a")


def test_a_path_has_one_template_with_those_above_and_below(plant: Catalog) -> None:
    plant.templates.set("t1", "root.plant", "root.plant.a.b")
    for path in ("root.plant", "root.plant.a", "root.plant.a.b", "root.plant.a.b.c"):
        with pytest.raises(ExistsError, match=r"already exists on root\.plant\.a\.b\nhint"):
            plant.templates.set("t1", "root.plant", path)
    plant.templates.set("t1", "root.plant", "root.plant.a.bc")
    assert plant.templates.paths() == {"root.plant.a.b": "t1", "root.plant.a.bc": "t1"}
    paths = [f"root.plant.a{rest}" for rest in ("", ".b", ".b.c.d", ".x")]
    assert plant.templates.covering(paths) == dict.fromkeys(paths[1:3], ("root.plant.a.b", T1))


def test_a_template_that_is_set_is_not_dropped(plant: Catalog) -> None:
    plant.templates.set("t1", "root.plant", "root.plant.a")
    with pytest.raises(IntegrityError, match="cannot be dropped now"):
        plant.templates.drop("t1")
    plant.templates.unset("root.plant.a")
    plant.templates.drop("t1")
    assert plant.templates.all() == []


def test_a_dropped_database_takes_its_paths_along(plant: Catalog) -> None:
    plant.templates.set("t1", "root.plant", "root.plant.a")
    plant.templates.set("t1", "root.other", "root.other.a")
    plant.databases.drop("root.plant")
    assert plant.templates.paths() == {"root.other.a": "t1"}


def test_an_extended_template_extends_the_devices_that_use_it(plant: Catalog) -> None:
    stored = Timeseries("s1", BIGINT, "s1")
    users = [Device("root.plant", f"root.plant.d{number}", (stored,), True, template="t1") for number in range(3)]
    free = Device("root.plant", "root.plant.free", (stored,))
    plant.trees.change("root.plant", [], lambda _: [*users, free], [Column("s1", BIGINT)])
    assert plant.templates.used_databases("t1") == ["root.plant"]
    plant.templates.extend("t1", [S2], {"root.plant": {"s2": Column("s2_3", DOUBLE, comment="s2")}})
    assert plant.templates.get("t1").series == (S1, S2)
    series = {device.path: device.series for device in plant.trees.all("root.plant")}
    extended = (stored, Timeseries("s2", DOUBLE, "s2_3", "RLE", "SNAPPY"))
    assert series == {**{user.path: extended for user in users}, free.path: (stored,)}
    table = plant.tables.get("root.plant", "devices")
    assert [column.name for column in table.columns] == ["time", "s1", "s2_3"]


def test_a_device_of_an_empty_template_stays(plant: Catalog) -> None:
    empty = Device("root.plant", "root.plant.d", (), template="t1")
    plant.trees.change("root.plant", [], lambda _: [empty], [])
    assert [device.path for device in plant.trees.all("root.plant")] == ["root.plant.d"]
