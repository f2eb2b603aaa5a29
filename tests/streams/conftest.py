"""Environments for tests of streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.streams.environment import StreamEnvironment, open_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def env(tmp_path: Path, spark: SparkSession) -> Iterator[StreamEnvironment]:
    """An environment whose streams run on the session's Spark."""
    with open_environment(tmp_path / "home", lambda: spark) as environment:
        yield environment


@pytest.fixture
def offline_env(tmp_path: Path) -> Iterator[StreamEnvironment]:
    """An environment that needs no Spark."""

    def no_spark() -> SparkSession:
        raise AssertionError("nothing here needs Spark")

    with open_environment(tmp_path / "home", no_spark) as environment:
        yield environment
