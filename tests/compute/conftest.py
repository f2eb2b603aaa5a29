"""Fixtures for tests with small data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def small(spark: SparkSession) -> SparkSession:
    """Return a Spark session without adaptive execution and with one partition, as micro-batches use it."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session
