"""Fixtures that every room's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.settings import Settings, load
from tests.support.postgres import postgres, postgres_url  # noqa: F401  (fixtures)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of an empty home of the test's own."""
    return load(home=tmp_path / "home")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this test process."""
    from headrace.storage.session import start_session

    session = start_session(load(home=tmp_path_factory.mktemp("spark"), spark_master="local[2]", driver_memory="2g"))
    yield session
    session.stop()
