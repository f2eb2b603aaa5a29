"""The hosts of a driver's jobs, for tests that look into a driver."""

from __future__ import annotations

from headrace.runtime.driver import Driver
from headrace.runtime.poller_host import PollerHost
from headrace.streams.kind import STREAM
from headrace.streams.sources.poller import SourcePollers


def pollers_of(driver: Driver) -> SourcePollers:
    """Return the source pollers of a driver."""
    host = driver.host(STREAM)
    assert isinstance(host, PollerHost)
    return host.pollers
