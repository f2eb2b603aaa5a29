"""Virtual tables of the catalog: where their columns come from, and what cannot be dropped because of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.catalog.alterations import with_renamed_column, without_column
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.streams import StreamSchema
from headrace.model.tables import ColumnReference, Database, TableId
from headrace.streams.kind import STREAM
from tests.catalog.samples import CURRENT, TS, definition, plain_table, supertable

METERS, PUMP, VIRTUAL = TableId("power", "meters"), TableId("other", "pump"), TableId("power", "virtual")


def reference(series: str, column: str = "current", origin: TableId = METERS, origin_series: str = "d1") -> ColumnReference:
    return ColumnReference(series, column, origin, origin_series, "current")


@pytest.fixture
def virtual(power: Catalog) -> Catalog:
    """The catalog with the virtual table `v` over `meters` and `other.pump`, and `virtual` with the subtable `v1` over `meters`."""
    power.databases.create(Database("other"))
    power.tables.create(supertable("meters"))
    power.subtables.add("power", "meters", ["d1", "d2"])
    power.tables.create(plain_table("pump", "other"))
    both = replace(plain_table("v"), columns=(TS, CURRENT, replace(CURRENT, name="flow")), is_virtual=True)
    power.virtual_tables.create(both, [reference("v"), reference("v", "flow", PUMP, "pump")])
    power.tables.create(replace(supertable("virtual"), is_virtual=True))
    power.virtual_tables.create_subtable("power", "virtual", "v1", [reference("v1", origin_series="d2")])
    return power


def columns(catalog: Catalog, table: str) -> dict[str, str]:
    return {f"{one.series}.{one.column}": str(one) for one in catalog.virtual_tables.references("power", table)}


def test_references_come_back_as_they_were_created(virtual: Catalog) -> None:
    assert columns(virtual, "v") == {"v.current": "power.d1.current", "v.flow": "other.pump.current"}
    assert columns(virtual, "virtual") == {"v1.current": "power.d2.current"}
    assert virtual.virtual_tables.references("power", "virtual", ["v2"]) == ()
    assert [table.is_virtual for table in virtual.tables.all("power")] == [False, True, True]


def test_names_and_origins_are_checked_in_the_same_transaction(virtual: Catalog) -> None:
    with pytest.raises(ExistsError):
        virtual.virtual_tables.create_subtable("power", "virtual", "d1", [])
    with pytest.raises(NotFoundError, match=r"power\.d9\.current does not exist any more"):
        virtual.virtual_tables.create_subtable("power", "virtual", "v2", [reference("v2", origin_series="d9")])
    with pytest.raises(NotFoundError, match="does not exist any more"):
        virtual.virtual_tables.set_origin("power", "v1", "current", replace(reference("v1"), origin_column="volts"))
    assert set(virtual.subtables.find("power", ["v2", "v1"])) == {"v1"}
    assert columns(virtual, "virtual") == {"v1.current": "power.d2.current"}


def test_an_origin_is_changed_removed_and_goes_with_its_table(virtual: Catalog) -> None:
    virtual.virtual_tables.set_origin("power", "v1", "current", reference("v1", origin=PUMP, origin_series="pump"))
    assert columns(virtual, "virtual") == {"v1.current": "other.pump.current"}
    virtual.virtual_tables.set_origin("power", "v1", "current", None)
    assert columns(virtual, "virtual") == {}
    virtual.tables.drop("power", "v")
    assert columns(virtual, "v") == {}
    virtual.tables.drop("power", "meters")


def test_columns_are_renamed_and_dropped_with_their_origins(virtual: Catalog) -> None:
    table = virtual.tables.get("power", "v")
    virtual.virtual_tables.alter(table, lambda current: with_renamed_column(current, "flow", "oil"), removed="flow", renamed="oil")
    assert columns(virtual, "v") == {"v.current": "power.d1.current", "v.oil": "other.pump.current"}
    virtual.virtual_tables.alter(table, lambda current: without_column(current, "oil"), removed="oil")
    assert columns(virtual, "v") == {"v.current": "power.d1.current"}
    virtual.tables.alter("power", "virtual", lambda current: without_column(current, "current"), removed=["current"])
    assert columns(virtual, "virtual") == {}


def test_origins_cannot_be_dropped(virtual: Catalog) -> None:
    with pytest.raises(IntegrityError, match=r"refer to it: power\.v\.current, power\.v1\.current"):
        virtual.tables.drop("power", "meters")
    with pytest.raises(IntegrityError, match=r"refer to it: power\.v\.flow"):
        virtual.tables.drop("other", "pump")
    with pytest.raises(IntegrityError, match=r"refer to it: power\.v\.flow"):
        virtual.databases.drop("other")
    with pytest.raises(IntegrityError, match=r"refer to it: power\.v1\.current"):
        virtual.subtables.drop("power", ["d2"])
    with pytest.raises(IntegrityError, match=r"refer to it: power\.v\.flow"):
        virtual.tables.alter("other", "pump", lambda current: without_column(current, "current"), removed=["current"])
    assert virtual.databases.drop("power")
    assert virtual.databases.drop("other")


def test_what_a_stream_over_a_virtual_table_reads_cannot_be_dropped(virtual: Catalog) -> None:
    read = (reference("v"), reference("v", "flow", PUMP, "pump"))
    schema = StreamSchema((TS, CURRENT), (), ("ts", "current", "flow"), (), TableId("power", "v"), read)
    virtual.jobs.create(definition(sources=(METERS, PUMP), target=None, schema=schema))
    assert virtual.jobs.get("power", "avg_current", STREAM).definition.schema == schema
    virtual.virtual_tables.set_origin("power", "v", "current", None)
    virtual.virtual_tables.set_origin("power", "v", "flow", None)
    with pytest.raises(IntegrityError, match=r"power\.d1 cannot be dropped: stream power\.avg_current reads it"):
        virtual.subtables.drop("power", ["d1"])
    for table in ("v", "meters"):
        with pytest.raises(IntegrityError, match=rf"power\.{table} cannot be dropped: stream power\.avg_current"):
            virtual.tables.drop("power", table)
    with pytest.raises(IntegrityError, match=r"current of other\.pump is needed by stream"):
        virtual.tables.check_unused("other", "pump", ["current"])
    with pytest.raises(IntegrityError, match=r"flow of power\.v is needed by stream"):
        virtual.tables.check_unused("power", "v", ["flow"])


def test_a_stream_needs_the_origins_that_it_was_planned_with(virtual: Catalog) -> None:
    gone = replace(reference("v"), origin_column="volts")
    schema = StreamSchema((TS, CURRENT), (), ("ts", "current"), (), TableId("power", "v"), (gone,))
    with pytest.raises(NotFoundError, match=r"power\.meters has no column volts any more"):
        virtual.jobs.create(definition(sources=(METERS,), target=None, schema=schema))


def test_a_job_over_a_virtual_table_belongs_to_all_databases_that_it_reads() -> None:
    virtual = TableId("power", "v")
    schema = StreamSchema((TS, CURRENT), (), (), (), virtual, (reference("v", origin=PUMP, origin_series="pump"),))
    job = definition(sources=(PUMP,), schema=schema)
    assert (job.source, job.source_ids) == (virtual, ("other.pump",))
    assert job.databases == {"power", "other"}
