"""Reads of the schema that a thread shares among many writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import event

from headrace.catalog import Catalog
from headrace.catalog.revisions import RevisionKind
from headrace.errors import NotFoundError
from headrace.model.tables import Column, Database, Table
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP

POWER = Database("power")
METERS = Table("power", "meters", (Column("ts", TIMESTAMP), Column("current", DOUBLE)), (Column("site", BIGINT),))


@pytest.fixture
def catalog(power: Catalog) -> Catalog:
    power.tables.create(METERS)
    return power


@pytest.fixture
def other_process(catalog: Catalog, url: str) -> Iterator[Catalog]:
    """Another process at the same catalog."""
    assert catalog.databases.get("power") == POWER
    with Catalog.open(url) as opened:
        yield opened


def with_column(table: Table) -> Table:
    return replace(table, columns=(*table.columns, Column("added", BIGINT)))


def count_statements(catalog: Catalog) -> list[str]:
    """Return the list to which statements are added."""
    statements: list[str] = []
    event.listen(catalog._store.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    return statements


def test_what_has_not_changed_is_read_once(catalog: Catalog) -> None:
    for _ in range(2):
        with catalog.pins.pinned():
            assert catalog.tables.get("power", "meters") == METERS
            assert catalog.databases.get("power") == POWER
    statements = count_statements(catalog)
    with catalog.pins.pinned():
        assert catalog.tables.get("power", "meters") == METERS
        assert catalog.databases.get("power") == POWER
    reads = [statement for statement in statements if statement.startswith("SELECT")]
    if catalog._store.commits() is None:
        assert len(reads) == 1
        assert "revisions" in reads[0]
    else:
        assert not reads


def test_commits_are_counted_on_sqlite_alone(catalog: Catalog, other_process: Catalog) -> None:
    before = catalog._store.commits()
    assert before == catalog._store.commits()
    other_process.tables.alter("power", "meters", with_column)
    assert (before is None) is (catalog._store.engine.dialect.name != "sqlite")
    assert before is None or catalog._store.commits() != before


def test_a_change_of_another_process_is_seen_by_the_next_block(catalog: Catalog, other_process: Catalog) -> None:
    with catalog.pins.pinned():
        catalog.tables.get("power", "meters")
    other_process.tables.alter("power", "meters", with_column)
    with catalog.pins.pinned():
        assert catalog.tables.get("power", "meters") == with_column(METERS)


def test_a_change_of_its_own_is_seen_at_once(catalog: Catalog) -> None:
    with catalog.pins.pinned():
        assert catalog.tables.find("power", "other") is None
        catalog.tables.create(replace(METERS, name="other"))
        assert catalog.tables.get("power", "other").name == "other"
        catalog.databases.drop("power")
        with pytest.raises(NotFoundError):
            catalog.tables.get("power", "meters")


def test_outside_of_a_block_everything_is_read(catalog: Catalog, other_process: Catalog) -> None:
    catalog.tables.get("power", "meters")
    other_process.tables.alter("power", "meters", with_column)
    assert catalog.tables.get("power", "meters") == with_column(METERS)


def test_only_changes_of_the_schema_count(catalog: Catalog) -> None:
    before = catalog.pins.revision(RevisionKind.SCHEMA)
    catalog.access.create_user("operator", "secret12")
    assert catalog.pins.revision(RevisionKind.SCHEMA) == before
    catalog.tables.drop("power", "meters")
    assert catalog.pins.revision(RevisionKind.SCHEMA) == before + 1
