"""What `headrace doctor` says of Airflow, clocks and ports."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from headrace.cli import doctor_airflow
from headrace.cli.doctor_airflow import check_airflow, check_clocks, check_components, check_pools, check_ports
from headrace.errors import ConfigurationError, OperationalError
from headrace.settings import Settings, load
from tests.airflow.rest_server import Server

VERSION, HEALTH, POOLS = "/api/v2/version", "/api/v2/monitor/health", "/api/v2/pools"
pytestmark = pytest.mark.airflow


@pytest.fixture
def settings(server: Server, home: Settings) -> Settings:
    """Return settings with an Airflow that is well."""
    server.answers["GET", VERSION] = (200, {"version": "3.3.1"})
    server.answers["GET", HEALTH] = (200, {name: {"status": "healthy"} for name in doctor_airflow.COMPONENTS})
    server.answers["GET", f"{POOLS}/default_pool"] = (200, {"slots": 128})
    return load(home=home.home_path, airflow_url=server.url, airflow_token="t")


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_an_airflow_that_is_well(settings: Settings, server: Server) -> None:
    assert check_airflow(settings) == f"3.3.1 at {server.url}"
    assert check_components(settings) == "scheduler, triggerer, dag_processor are healthy"
    assert check_pools(settings) == "default_pool has 128 slots"
    assert check_clocks(settings).startswith("catalog differs by 0.0 s; Airflow differs by ")


def test_faults_are_named(settings: Settings, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["GET", VERSION] = (200, {"version": "3.2.0"})
    with pytest.raises(ConfigurationError, match=r"has the version 3\.2\.0"):
        check_airflow(settings)
    server.answers["GET", HEALTH] = (200, {"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}})
    with pytest.raises(OperationalError, match="Airflow's triggerer and dag_processor is not healthy"):
        check_components(settings)
    with pytest.raises(ConfigurationError, match="Airflow has no pool big"):
        check_pools(settings.replace({"backfill_pool": "big"}))
    monkeypatch.setattr(doctor_airflow, "airflow_time", lambda _: time.time() - 10)
    with pytest.raises(ConfigurationError, match=r"the clock of Airflow differs by -9\.\d s"):
        check_clocks(settings)


def test_without_an_airflow_that_is_said(home: Settings) -> None:
    for check in (check_airflow, check_components, check_pools):
        assert check(home) == "has never been started here; start it with `headrace up`"


def test_a_port_that_another_process_has_is_named(home: Settings, listener: int) -> None:
    settings = load(home=home.home_path, airflow_port=listener, doors="flight", flight_port=0)
    assert check_ports(load(home=home.home_path, airflow_url="http://airflow")) == "none is fixed"
    with pytest.raises(ConfigurationError, match=f"another process has port {listener} of Airflow"):
        check_ports(settings)
