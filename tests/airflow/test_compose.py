"""The distributed deployment, as far as it can be tested without a container engine."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headrace.runtime.dag_ids import BACKFILL_POOL, SPARK_CONNECTION
from headrace.settings import Settings, load
from headrace.storage.spark.session import AUTHENTICATION
from tests.airflow.samples import repository
from tests.airflow.test_processes import unknown_options

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SERVERS = (*COMPONENTS, "postgres", "object-store", "spark-master", "spark-worker")
SECRETS = {
    "POSTGRES_PASSWORD": {"postgres"},
    "CATALOG_PASSWORD": {"postgres", "prepare", *COMPONENTS},
    "AIRFLOW_DB_PASSWORD": {"postgres", "prepare", *COMPONENTS},
    "OBJECT_STORE_PASSWORD": {"object-store", "prepare-object-store"},
    "TABLES_SECRET_KEY": {"prepare-object-store", "api-server", "scheduler"},
    "SPARK_SECRET": {"scheduler", "spark-master", "spark-worker"},
    "ADMIN_PASSWORD": {"prepare"},
    "SERVICE_PASSWORD": {"prepare", "api-server", "scheduler"},
    "JWT_SECRET": {"api-server", "scheduler"},
    "API_SECRET_KEY": {"api-server", "scheduler", "triggerer"},
    "FERNET_KEY": {"prepare", *COMPONENTS},
}
"""The services that know each secret."""
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
S3_VARIABLES = ("HEADRACE_WAREHOUSE", "HEADRACE_S3_ENDPOINT", "HEADRACE_S3_ACCESS_KEY_ID")


@cache
def compose() -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load((repository() / "docker-compose.yaml").read_text()))


def service(name: str) -> dict[str, Any]:
    return dict(compose()["services"][name])


def environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in service(name).get("environment", {}).items()}


def test_the_file_is_valid_by_the_compose_specification() -> None:
    import jsonschema  # type: ignore[import-untyped]

    schema = json.loads((Path(__file__).parent / "data" / "compose-spec.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(compose())] == []
    assert list(validator.iter_errors({"services": {"a": {"imagine": "b"}}})), "the schema accepts anything"


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_is_known_only_to_the_services_that_need_it(name: str) -> None:
    owners = {service_name for service_name in compose()["services"] if f"${{{name}" in json.dumps(service(service_name))}
    assert owners == SECRETS[name]


def test_services_have_no_more_privileges_than_they_need() -> None:
    for name in compose()["services"]:
        if name != "postgres":  # its image starts as root and changes the user itself
            assert service(name)["cap_drop"] == ["ALL"], name
            assert "no-new-privileges:true" in service(name)["security_opt"], name


def test_the_image_is_read_only_and_what_services_write_is_on_volumes() -> None:
    own = {name: fields for name, fields in compose()["services"].items() if fields["image"] == "headrace"}
    assert own.keys() == {"prepare", "spark-master", "spark-worker", *COMPONENTS}
    for name, fields in own.items():
        assert fields["read_only"] is True, name
        assert 0 < fields["pids_limit"] < 32_768, name
        paths = {volume.rpartition(":")[2] for volume in fields["volumes"]}
        needed = {"/tmp", "/srv/airflow", environment(name)["HEADRACE_HOME"]} if "HEADRACE_HOME" in environment(name) else {"/tmp"}
        assert paths == needed, name


def test_an_endpoint_that_does_not_encrypt_is_on_no_port_of_the_machine() -> None:
    for name in compose()["services"]:
        variables = environment(name)
        if "HEADRACE_HTTP_HOST" in variables:
            assert variables["HEADRACE_HTTP_WITHOUT_TLS"] == "true"
            assert "ports" not in service(name)


def test_airflow_has_real_users_with_passwords_of_their_own() -> None:
    for name in ("prepare", *COMPONENTS):
        assert environment(name)["AIRFLOW__CORE__AUTH_MANAGER"] == FAB, name
        assert "SIMPLE_AUTH" not in json.dumps(service(name)), name
    users = re.findall(r'users create --role (\w+) --username (\w+) --password "\$\$(\w+)"', service("prepare")["command"][-1])
    assert users == [("Admin", "admin", "ADMIN_PASSWORD"), ("User", "headrace", "SERVICE_PASSWORD")]
    assert f"${{{users[1][2]}" in environment("scheduler")["HEADRACE_AIRFLOW_PASSWORD"]
    assert environment("scheduler")["HEADRACE_AIRFLOW_USER"] == users[1][1]


def test_drivers_and_the_cluster_authenticate_each_other() -> None:
    for name in ("spark-master", "spark-worker"):
        options = dict(part.removeprefix("-D").split("=") for part in environment(name)["SPARK_DAEMON_JAVA_OPTS"].split())
        assert options == AUTHENTICATION
        secrets = {environment(name)["_SPARK_AUTH_SECRET"], environment("scheduler")["HEADRACE_SPARK_SECRET"]}
        assert {secret.partition(":")[0].strip("${}") for secret in secrets} == {"SPARK_SECRET"}


def test_the_workers_have_room_for_an_snode_and_the_tasks_of_a_backfill() -> None:
    settings = load()
    worker = service("spark-worker")
    replicas, cores = (int(default(str(text))) for text in (worker["deploy"]["replicas"], worker["command"][3]))
    slots = int(default(environment("scheduler")["HEADRACE_BACKFILL_SLOTS"]))
    assert replicas >= 2
    assert replicas * cores >= settings.snode_cores + slots * settings.task_cores


def default(text: str) -> str:
    """Return the value of a variable that is not set."""
    return text.partition(":-")[2].removesuffix("}")


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_variable_is_a_setting_that_exists(name: str) -> None:
    settings = {f"HEADRACE_{setting.upper()}" for setting in Settings.fields}
    assert {key for key in environment(name) if key.startswith("HEADRACE_")} <= settings
    assert unknown_options(environment(name)) == []


def test_components_that_share_a_secret_have_the_same() -> None:
    for key in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY"):
        assert len({value for name in COMPONENTS if (value := environment(name).get(key))}) == 1
        assert "${" in environment("scheduler")[key], "the file must not contain secrets"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with generated secrets, written with the umask of a careless user."""
    path = tmp_path_factory.mktemp("compose") / ".env"
    subprocess.run(["sh", "-c", f"umask 0; '{repository()}/bin/compose-env' '{path}'"], check=True)
    return path


def secrets_in(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_the_script_generates_every_secret_of_the_file(generated: Path) -> None:
    text = (repository() / "docker-compose.yaml").read_text()
    required, values = set(re.findall(r"\$\{(\w+):\?", text)), secrets_in(generated)
    assert required == set(values) == set(SECRETS)
    assert len(set(values.values())) == len(values)


def test_generated_secrets_are_private_and_kept(generated: Path) -> None:
    assert stat.S_IMODE(generated.stat().st_mode) == 0o600
    secrets = generated.read_text()
    again = subprocess.run([repository() / "bin" / "compose-env", generated], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr.strip()) == (1, f"{generated}: File exists")
    assert generated.read_text() == secrets
    assert generated.name in (repository() / ".gitignore").read_text().splitlines()


def test_airflow_accepts_the_generated_key(generated: Path) -> None:
    from cryptography.fernet import Fernet

    Fernet(secrets_in(generated)["FERNET_KEY"])


@pytest.mark.parametrize("name", sorted(SERVERS))
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


def test_volumes_and_configs_are_declared() -> None:
    for name in compose()["services"]:
        named = {volume.split(":")[0] for volume in service(name).get("volumes", []) if ":" in volume}
        assert named <= set(compose()["volumes"])
        assert {config["source"] for config in service(name).get("configs", [])} <= set(compose()["configs"])


def test_services_that_use_tables_find_them_in_the_bucket_of_the_policy() -> None:
    policy = json.loads(compose()["configs"]["bucket-policy"]["content"])
    buckets = {resource.split(":::")[1].split("/")[0] for part in policy["Statement"] for resource in part["Resource"]}
    for name in ("api-server", "scheduler"):
        settings = load(**{key.removeprefix("HEADRACE_").lower(): environment(name)[key] for key in S3_VARIABLES})
        assert settings.is_on_object_store
        assert {settings.tables_uri.split("/")[2]} == buckets


@pytest.mark.postgres
def test_the_databases_belong_to_users_that_are_no_superusers(postgres_url: str) -> None:
    """Run the script of the file, with other names, since the server of the tests is shared."""
    script = compose()["configs"]["databases"]["content"]
    names = {name: f"{name}_{uuid.uuid4().hex[:8]}" for name in ("headrace", "airflow")}
    for name, other in names.items():
        script = re.sub(rf"\b{name}\b", other, script)
    variables = os.environ | {"CATALOG_PASSWORD": "c'atalog", "AIRFLOW_DB_PASSWORD": "airflow"}
    subprocess.run(["psql", "-v", "ON_ERROR_STOP=1", postgres_url], input=script, text=True, env=variables, check=True)
    query = "SELECT rolname, rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = ANY(%s) ORDER BY 1"
    owned = "SELECT datname, pg_get_userbyid(datdba) FROM pg_database WHERE datname = ANY(%s)"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        others = list(names.values())
        assert [row[1:] for row in connection.execute(query, [others])] == [(False, False, False)] * 2
        assert set(connection.execute(owned, [others])) == {(other, other) for other in others}
        for other in others:
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(other)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(other)))


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


def test_every_image_that_is_pulled_has_a_version_and_a_digest() -> None:
    text = (repository() / "Dockerfile").read_text() + (repository() / "docker-compose.yaml").read_text()
    own = {"headrace", "headrace-object-store"}
    pulled = [image for image in re.findall(r"^\s*(?:FROM|image:) +(\S+)", text, re.MULTILINE) if image not in own]
    assert {image.partition(":")[0] for image in pulled} == {"python", "postgres", "golang", "debian"}
    for image in pulled:
        assert re.fullmatch(r"\w+:[\w.-]*\d+\.?\d*[\w.-]*@sha256:[0-9a-f]{64}", image), image


def test_every_package_of_image_and_environment_has_a_version_and_hashes() -> None:
    text = (repository() / "requirements.txt").read_text()
    entries = [entry for entry in re.split(r"^(?=\w)", text, flags=re.MULTILINE) if not entry.startswith("#")]
    assert len(entries) > 200
    for entry in entries:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry


@pytest.mark.parametrize("name", ["Dockerfile", "bin/setup"])
def test_packages_are_installed_by_their_hashes(name: str) -> None:
    lines = [line for line in (repository() / name).read_text().splitlines() if "requirements.txt" in line and " install " in line]
    assert len(lines) == 1
    assert {"--no-deps", "--require-hashes"} <= set(lines[0].split())


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
