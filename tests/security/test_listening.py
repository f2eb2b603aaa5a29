"""Servers that do not encrypt are closed to other machines, unless a setting says otherwise."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.runtime.context import open_context
from headrace.runtime.listening import check_endpoint
from headrace.runtime.snode import run_snode
from headrace.service.endpoint import sql_runner
from headrace.settings import load


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "plant.example.com", ""])
def test_an_endpoint_beyond_this_machine_has_to_be_wanted(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match="would be open to other machines") as failure:
        check_endpoint(load(home=tmp_path, http_host=host))
    assert "HEADRACE_HTTP_WITHOUT_TLS" in str(failure.value.hint)
    check_endpoint(load(home=tmp_path, http_host=host, http_without_tls=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_an_endpoint_of_this_machine_is_open(tmp_path: Path, host: str) -> None:
    check_endpoint(load(home=tmp_path, http_host=host))


def test_an_snode_does_not_start_with_an_endpoint_that_is_open_unasked(tmp_path: Path) -> None:
    context = open_context(load(home=tmp_path, http_host="0.0.0.0"))
    with closing(context.catalog):
        with pytest.raises(ConfigurationError, match="without TLS"):
            run_snode(context, "default", sql_runner(context))
        lease = context.catalog.leases.acquire("default", "another:1", 1_000)
        assert lease is not None
        assert lease.epoch == 1, "it has taken the lease"
