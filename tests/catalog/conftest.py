"""Run every test of the catalog on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.tables import Database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a catalog that does not exist yet."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else f"sqlite:///{tmp_path / 'catalog.db'}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def catalog(url: str, clock: ManualClock) -> Iterator[Catalog]:
    """Return an empty catalog with a frozen clock."""
    with Catalog.open(url, clock=clock.now) as opened:
        yield opened


@pytest.fixture
def power(catalog: Catalog) -> Catalog:
    """Return a catalog with the empty database `power`."""
    catalog.databases.create(Database("power"))
    return catalog
