"""Fixtures for tests of the storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.storage import Tables
from tests.storage.samples import METERS, POWER, open_tables
from tests.support.interpreted import interpret_plans

interpret_plans()


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Tables below an empty folder."""
    return open_tables(tmp_path)


@pytest.fixture
def meters(tables: Tables) -> Tables:
    """Tables with the empty supertable `power.meters` (ts, a INT, b DOUBLE; tag site)."""
    tables.create(METERS, POWER)
    return tables
