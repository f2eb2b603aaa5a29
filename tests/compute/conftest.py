"""Fixtures for tests with small data frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.storage.spark.python_calls import define_in
from tests.support.interpreted import drawn_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def small(spark: SparkSession) -> SparkSession:
    """Return a Spark session without adaptive execution and with one partition, as micro-batches use it."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    define_in(session)
    return session


@pytest.fixture(autouse=True)
def _plans(request: pytest.FixtureRequest) -> Iterator[None]:
    used = {"small", "spark"} & set(request.fixturenames)
    with drawn_plans(request.node, *map(request.getfixturevalue, used)):
        yield
