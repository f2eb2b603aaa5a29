"""Fixtures of the tests of user code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.code.hosts import current_hosts


@pytest.fixture(autouse=True)
def no_hosts_remain() -> Iterator[None]:
    """End the hosts of a test."""
    yield
    current_hosts().close()
