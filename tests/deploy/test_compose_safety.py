"""What docs/guides/security.md and docs/guides/deploy.md promise of the containers of docker-compose.yaml."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.deploy.kustomize import ROOT

FILE = ROOT / "docker-compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
OWN = sorted(name for name, service in SERVICES.items() if service["image"] == "headrace")
HOST_FIELDS = ("privileged", "network_mode", "pid", "ipc", "userns_mode", "devices", "cap_add")
"""What opens a container to its machine."""
SECRETS = {
    "POSTGRES_PASSWORD": {"postgres"},
    "ADMIN_PASSWORD": {"prepare"},
    "OBJECT_STORE_PASSWORD": {"object-store", "prepare-object-store"},
    "SERVICE_PASSWORD": {"prepare", "api-server", "scheduler"},
    "JWT_SECRET": {"api-server", "scheduler"},
    "API_SECRET_KEY": {"api-server", "scheduler", "triggerer"},
    "TABLES_SECRET_KEY": {"prepare-object-store", "api-server", "scheduler"},
    "SPARK_SECRET": {"scheduler", "spark-master", "spark-worker"},
    "FERNET_KEY": {"prepare", "api-server", "scheduler", "dag-processor", "triggerer"},
    "CATALOG_PASSWORD": {"postgres", "prepare", "api-server", "scheduler", "dag-processor", "triggerer"},
    "AIRFLOW_DB_PASSWORD": {"postgres", "prepare", "api-server", "scheduler", "dag-processor", "triggerer"},
}
"""The services that need each secret."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_of_root(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & set(HOST_FIELDS)
    assert not [volume for volume in service.get("volumes", ()) if str(volume).partition(":")[0].startswith((".", "/var/run"))]


@pytest.mark.parametrize("name", OWN)
def test_the_file_system_of_our_image_is_read_only(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["pids_limit"] > 0
    # A path alone is a volume that goes with the container; no folder of the machine is mounted.
    assert {str(volume).partition(":")[0] for volume in service["volumes"]} <= {"home", "/srv/airflow", "/tmp"}


def test_no_container_runs_as_root() -> None:
    assert SERVICES["postgres"]["user"] == "postgres"
    assert SERVICES["object-store"]["build"]["dockerfile_inline"].rstrip().endswith("USER minio")
    users = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["headrace"]
    assert {service["image"] for service in SERVICES.values()} == {
        "headrace",
        "headrace-object-store",
        SERVICES["postgres"]["image"],
    }


def test_ports_are_open_to_this_machine_alone() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports.keys() == {"api-server", "spark-master"}
    assert all(port.startswith("127.0.0.1:") for listed in ports.values() for port in listed)


def test_each_service_has_the_secrets_that_it_needs_and_no_others() -> None:
    used = set(re.findall(r"\$\{(\w+):\?", FILE.read_text()))
    assert used == SECRETS.keys()
    for secret, names in SECRETS.items():
        assert {name for name, service in SERVICES.items() if f"${{{secret}" in yaml.safe_dump(service)} == names, secret


def test_users_of_airflow_have_passwords_in_its_database() -> None:
    managers = {
        service["environment"]["AIRFLOW__CORE__AUTH_MANAGER"]
        for service in SERVICES.values()
        if "AIRFLOW__CORE__EXECUTOR" in service["environment"]
    }
    assert managers == {"airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"}
    assert "SIMPLE_AUTH" not in FILE.read_text()


def test_images_of_others_are_pinned() -> None:
    text = FILE.read_text() + (ROOT / "Dockerfile").read_text()
    images = re.findall(r"(?:^FROM|^\s+FROM|image:) (\S+)", text, re.MULTILINE)
    others = [image for image in images if image not in ("headrace", "headrace-object-store")]
    assert len(others) == 4
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in others)


def test_statements_reach_nothing_unless_the_environment_allows_it() -> None:
    for name in ("api-server", "scheduler"):
        environment = SERVICES[name]["environment"]
        assert environment["HEADRACE_EGRESS"] == "${EGRESS:-none}"
        assert environment["HEADRACE_EXTERNAL_LOCATIONS"] == "${EXTERNAL_LOCATIONS:-none}"
