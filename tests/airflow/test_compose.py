"""The distributed deployment, as far as it can be tested without a container engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.dag_ids import BACKFILL_POOL, SPARK_CONNECTION
from headrace.settings import Settings
from tests.airflow.samples import repository
from tests.airflow.test_processes import unknown_options

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")


@cache
def compose() -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    return dict(yaml.safe_load((repository() / "docker-compose.yaml").read_text()))


def service(name: str) -> dict[str, Any]:
    return dict(compose()["services"][name])


def environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in service(name).get("environment", {}).items()}


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_variable_is_a_setting_that_exists(name: str) -> None:
    settings = {f"HEADRACE_{setting.upper()}" for setting in Settings.model_fields}
    assert {key for key in environment(name) if key.startswith("HEADRACE_")} <= settings
    assert unknown_options(environment(name)) == []


def test_all_components_share_their_secrets() -> None:
    for key in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY"):
        assert len({environment(name)[key] for name in COMPONENTS}) == 1
        assert "${" in environment("scheduler")[key], "the file must not contain secrets"


def test_the_script_generates_every_secret_of_the_file() -> None:
    text = (repository() / "docker-compose.yaml").read_text()
    required = set(re.findall(r"\$\{(\w+):\?", text))
    printed = subprocess.run([repository() / "bin" / "compose-env"], capture_output=True, text=True, check=True).stdout
    generated = dict(line.split("=", 1) for line in printed.splitlines())
    assert required == set(generated)
    assert len(set(generated.values())) == len(generated)


def test_airflow_accepts_the_generated_key() -> None:
    from cryptography.fernet import Fernet

    printed = subprocess.run([repository() / "bin" / "compose-env"], capture_output=True, text=True, check=True).stdout
    Fernet(dict(line.split("=", 1) for line in printed.splitlines())["FERNET_KEY"])


@pytest.mark.parametrize("name", sorted({*COMPONENTS, "postgres", "spark-master", "spark-worker"}))
def test_every_long_running_service_has_a_health_check_init_and_restarts(name: str) -> None:
    assert service(name)["healthcheck"]["test"][0] == "CMD"
    assert service(name)["init"] is True
    assert service(name)["restart"] == "unless-stopped"


def test_services_depend_on_services_that_exist() -> None:
    names = set(compose()["services"])
    for name in names:
        assert set(service(name).get("depends_on", {})) <= names
    for name in COMPONENTS:
        assert service(name)["depends_on"]["prepare"]["condition"] == "service_completed_successfully"


def test_volumes_are_declared_and_the_tables_are_in_a_shared_one() -> None:
    declared = set(compose()["volumes"])
    for name in compose()["services"]:
        assert {volume.split(":")[0] for volume in service(name).get("volumes", [])} <= declared
    for name in (*COMPONENTS, "spark-master", "spark-worker"):
        assert "home:/srv/headrace" in service(name)["volumes"]
    assert environment("scheduler")["HEADRACE_WAREHOUSE"].startswith("/srv/headrace/")


def test_tasks_use_an_existing_pool_and_connection() -> None:
    assert environment("scheduler")["HEADRACE_BACKFILL_POOL"] == BACKFILL_POOL
    connection = json.loads(environment("scheduler")[f"AIRFLOW_CONN_{SPARK_CONNECTION.upper()}"])
    assert f"{connection['host']}:{connection['port']}" == environment("scheduler")["HEADRACE_SPARK_MASTER"]


def test_ports_are_bound_to_the_local_machine() -> None:
    for name in compose()["services"]:
        assert all(port.startswith("127.0.0.1:") for port in service(name).get("ports", [])), name


def test_the_paths_that_the_image_copies_exist() -> None:
    lines = (repository() / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1] if not word.startswith("--")]
    assert {"requirements.txt", "dags", "plugins", "spark_jobs", "include", "bin"} <= set(copied)
    assert all((repository() / path).exists() for path in copied)


def test_scripts_that_services_run_exist() -> None:
    for name in COMPONENTS:
        assert (repository() / service(name)["healthcheck"]["test"][2]).exists()


@pytest.mark.postgres
@pytest.mark.airflow
def test_airflow_connects_to_postgresql_with_the_installed_drivers(postgres_url: str, tmp_path: Path) -> None:
    """Use the URLs of the file with the address of a test server, for Airflow's sync and async engines."""
    address = postgres_url.removeprefix("postgresql")
    names = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC")
    urls = {name: environment("scheduler")[name].partition(":")[0] + address for name in names}
    program = (
        "import asyncio, sqlalchemy\n"
        "from airflow.utils.db import initdb\n"
        "from airflow.utils.session import create_session_async\n"
        "initdb()\n"
        "async def count():\n"
        "    async with create_session_async() as session:\n"
        "        print('pools', (await session.execute(sqlalchemy.text('SELECT count(*) FROM slot_pool'))).scalar())\n"
        "asyncio.run(count())\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, **urls, "AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pools 1" in outcome.stdout.splitlines(), outcome.stderr[-2000:]
