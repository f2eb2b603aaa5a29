"""Settings and a session for tables on an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.settings import Settings, current, load
from tests.support.object_store import Server
from tests.support.sessions import running_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests last, since environment and session stay theirs until the process ends."""
    folder = Path(__file__).parent
    items.sort(key=lambda item: folder in item.path.parents)


@pytest.fixture(scope="session", autouse=True)
def variables(object_store: Server) -> Iterator[None]:
    """Set how to reach the server in the environment, from which processes that a test starts inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in object_store.variables.items():
            patch.setenv(name, value)
        current.cache_clear()
        yield
    current.cache_clear()


@pytest.fixture
def bucket(object_store: Server) -> str:
    return object_store.create_bucket()


@pytest.fixture
def settings(tmp_path: Path, bucket: str) -> Settings:
    return load(home=tmp_path / "home", warehouse=f"{bucket}/tables", spark_master="local[2]", driver_memory="1g")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, variables: None) -> Iterator[SparkSession]:  # noqa: ARG001
    """Provide a session that reads and writes the object store, which all tests of the process share."""
    home = tmp_path_factory.mktemp("spark")
    with running_session(load(home=home, warehouse="s3a://any", spark_master="local[2]", driver_memory="1g")) as session:
        yield session
