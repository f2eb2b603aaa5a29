"""What the processes of `make compose-processes` are started with is what docker-compose.yaml says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compose.images import GO_MODULE, own_image
from tests.compose.topology import Service, interpolate, ordered, read_services
from tests.deploy.kustomize import ROOT

FILE = ROOT / "docker-compose.yaml"


@pytest.fixture(scope="module")
def services() -> list[Service]:
    names = set(re.findall(r"\$\{(\w+):\?", FILE.read_text()))
    return read_services(FILE, {name: f"value-of-{name}" for name in names} | {"WORKERS": "3"})


def named(services: list[Service], name: str) -> Service:
    return next(service for service in services if service.name == name)


def test_services_start_after_those_that_they_depend_on(services: list[Service]) -> None:
    names = [service.name for service in services]
    assert names.index("postgres") < names.index("prepare") < names.index("scheduler")
    assert names.index("spark-master") < names.index("spark-worker-1")
    assert [name for name in names if name.startswith("spark-worker")] == ["spark-worker-1", "spark-worker-2", "spark-worker-3"]


def test_variables_have_their_values(services: list[Service]) -> None:
    scheduler = named(services, "scheduler")
    assert scheduler.environment["HEADRACE_SPARK_SECRET"] == "value-of-SPARK_SECRET"
    assert scheduler.environment["HEADRACE_DRIVER_MEMORY"] == "2g"
    assert scheduler.is_read_only
    assert not named(services, "postgres").is_read_only
    assert dict(scheduler.volumes) == {"/srv/headrace": "home"}
    assert '"$ADMIN_PASSWORD"' in named(services, "prepare").command[-1]
    with pytest.raises(ValueError, match=r"_PASSWORD is not set: run bin/compose-env"):
        read_services(FILE, {})


@pytest.mark.parametrize(("text", "value"), [("${A:-b}", "a"), ("${B:-b}", "b"), ("$$A ${A}", "$A a"), (["${A:?x}"], ["a"])])
def test_texts_are_interpolated_as_compose_does(text: object, value: object) -> None:
    assert interpolate(text, {"A": "a"}) == value


def test_a_circle_of_dependencies_is_an_error(services: list[Service]) -> None:
    with pytest.raises(ValueError, match="circle"):
        ordered([service for service in services if service.name != "postgres"])


def test_images_have_the_users_and_the_environment_of_their_dockerfiles(services: list[Service]) -> None:
    image = own_image()
    assert (image.user, image.folder) == ("headrace", "/opt/headrace")
    assert image.environment["AIRFLOW_HOME"] == "/srv/airflow"
    for name in ("object-store", "prepare-object-store"):
        assert {module[1] for module in GO_MODULE.findall(named(services, name).dockerfile)} == {"minio", "mc"}
    assert named(services, "prepare-object-store").configs.keys() == {"/etc/headrace/bucket-policy.json"}
    assert Path(named(services, "postgres").volumes.popitem()[0]) == Path("/var/lib/postgresql/data")  # type: ignore[attr-defined]
