"""Fixtures of the runtime's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.context import Context
from headrace.runtime.context import open_context
from headrace.settings import Settings
from tests.support.interpreted import interpret_plans

interpret_plans()


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    opened = open_context(settings)
    yield opened
    opened.tables.close()
    opened.catalog.close()
