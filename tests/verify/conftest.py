"""Spark for random queries over a few rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.interpreted import drawn_plans


@pytest.fixture(autouse=True)
def _plans(request: pytest.FixtureRequest) -> Iterator[None]:
    used = {"spark"} & set(request.fixturenames)
    with drawn_plans(request.node, *map(request.getfixturevalue, used)):
        yield
