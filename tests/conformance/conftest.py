"""Spark for recorded cases of a few rows each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.interpreted import drawn_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _plans(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with drawn_plans(request.node, spark):
        yield
