"""A house for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.streams.house import House, house

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def built(tmp_path: Path, spark: SparkSession) -> Iterator[House]:
    """A house whose streams run on the session's Spark."""
    with house(tmp_path / "home", lambda: spark) as one:
        yield one


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[House]:
    """A house in which no stream runs, so that no Spark is needed."""

    def none() -> SparkSession:
        raise AssertionError("nothing here needs Spark")

    with house(tmp_path / "home", none) as one:
        yield one
