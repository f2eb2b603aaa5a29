"""The manifests of Kubernetes: by the API's schemas, by the settings that exist, and in what they say of each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from headrace.egress import METADATA
from headrace.model.spark_options import parse_spark_options
from headrace.runtime.dag_ids import BACKFILL_POOL, SPARK_CONNECTION
from headrace.runtime.http import Guard, Health, create_app
from headrace.settings import Settings
from headrace.storage.spark.jars import spark_home
from tests.deploy.kustomize import FOLDERS, ROOT, find_command, pods, render
from tests.deploy.schemas import problems

SECRETS = {
    "headrace": {"HEADRACE_CATALOG_URL", "HEADRACE_HTTP_TOKEN", "HEADRACE_SECRET_KEY", "HEADRACE_SPARK_SECRET"},
    "airflow": {
        "AIRFLOW__API__SECRET_KEY",
        "AIRFLOW__API_AUTH__JWT_SECRET",
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC",
    },
    "airflow-login": {"HEADRACE_AIRFLOW_PASSWORD"},
    "airflow-admin": {"ADMIN_PASSWORD"},
}
"""The secrets that users create, with their keys."""
S3_KEYS = {"HEADRACE_S3_ACCESS_KEY_ID", "HEADRACE_S3_SECRET_ACCESS_KEY"}
DATABASE = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"}
COMPONENT = {"HEADRACE_CATALOG_URL", "AIRFLOW__CORE__FERNET_KEY", *DATABASE}
SERVER = COMPONENT | S3_KEYS | SECRETS["airflow"] | {"HEADRACE_AIRFLOW_PASSWORD", "HEADRACE_SECRET_KEY"}
NEEDED = {
    "snode": SECRETS["headrace"],
    "maintenance": {"HEADRACE_CATALOG_URL"} | S3_KEYS,
    "await-migrations": DATABASE,
    "prepare": COMPONENT | {"HEADRACE_AIRFLOW_PASSWORD", "ADMIN_PASSWORD"},
    "api-server": SERVER,
    "scheduler": SERVER | {"HEADRACE_SPARK_SECRET"},
    "dag-processor": COMPONENT,
    "triggerer": COMPONENT | {"AIRFLOW__API__SECRET_KEY"},
    "executor": set(),
}
"""The secrets that each container needs. Those of an executor come from its driver."""
GIVEN_BY_THE_POD = {"POD_NAME": "snode-1", "POD_IP": "10.1.2.3"}


@pytest.fixture(params=FOLDERS)
def manifests(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    try:
        return render(request.param)
    except LookupError as error:
        pytest.skip(str(error))


def named(manifests: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return deepcopy(next(each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)))


def containers(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, template in pods(manifests).items():
        for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
            yield name, container


def variables(manifests: list[dict[str, Any]], container: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a container, with the secrets empty."""
    values: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "secretRef" in source:
            values |= dict.fromkeys(SECRETS[source["secretRef"]["name"]], "")
        else:
            values |= named(manifests, "ConfigMap", source["configMapRef"]["name"])["data"]
    for variable in container.get("env", ()):
        text = variable.get("value", GIVEN_BY_THE_POD.get(variable["name"], ""))
        values[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], text)
    return values


def test_the_api_accepts_all_manifests(manifests: list[dict[str, Any]]) -> None:
    assert [problem for manifest in manifests for problem in problems(manifest)] == []
    assert problems(pods(manifests)["executor"]) == []
    assert {manifest["metadata"].get("namespace", "headrace") for manifest in manifests} == {"headrace"}


def rename(place: Callable[[dict[str, Any]], dict[str, Any]], old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        place(manifest)[new] = place(manifest).pop(old)

    return change


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize(
    "change",
    [
        rename(lambda snode: snode["spec"], "serviceName", "service"),
        rename(lambda snode: snode["spec"]["template"]["spec"], "terminationGracePeriodSeconds", "terminationGracePeriod"),
        rename(container_of, "livenessProbe", "alivenessProbe"),
        rename(lambda snode: container_of(snode)["readinessProbe"]["httpGet"], "path", "url"),
        lambda snode: container_of(snode)["startupProbe"].update(periodSeconds="2s"),
        lambda snode: container_of(snode)["securityContext"].update(allowPrivilegeEscalation="no"),
        lambda snode: snode["spec"].pop("selector"),
        lambda snode: snode.update(apiVersion="apps/v1beta1"),
    ],
)
def test_a_wrong_field_is_found(change: Callable[[dict[str, Any]], None]) -> None:
    snode = named(render("base"), "StatefulSet", "snode")
    assert problems(snode) == []
    change(snode)
    assert problems(snode) != []


def test_the_files_of_the_base_are_complete_without_a_program_that_renders_them() -> None:
    if find_command() is None:
        pytest.skip("neither kubectl nor kustomize is installed")
    as_files = render.__wrapped__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.deploy.kustomize.find_command", lambda: None)
        files = as_files("base")
    ordered = [sorted(each, key=lambda m: (m["kind"], m["metadata"]["name"])) for each in (files, render("base"))]
    assert ordered[0] == ordered[1]


def secrets_of(container: dict[str, Any]) -> set[str]:
    """Return the secrets in the environment of a container, and check that they come from where users put them."""
    found: set[str] = set()
    for source in container.get("envFrom", ()):
        found |= SECRETS[source["secretRef"]["name"]] if "secretRef" in source else set()
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference is not None:
            assert variable["name"] == reference["key"] in SECRETS[reference["name"]] | S3_KEYS
            assert reference.get("optional", False) is (variable["name"] in S3_KEYS), "nodes may have a role instead"
            found.add(variable["name"])
    return found


def test_each_container_has_the_secrets_that_it_needs_and_no_others(manifests: list[dict[str, Any]]) -> None:
    has_airflow = any(manifest["kind"] == "Deployment" for manifest in manifests)
    for pod, container in containers(manifests):
        needed = NEEDED[pod if container["name"] != "await-migrations" else container["name"]]
        needed = needed | (SECRETS["airflow-login"] if has_airflow and pod == "snode" else set())
        assert secrets_of(container) == needed, (pod, container["name"])


def test_no_volume_takes_the_disk_of_its_node(manifests: list[dict[str, Any]]) -> None:
    volumes = [(name, volume) for name, template in pods(manifests).items() for volume in template["spec"]["volumes"]]
    for name, volume in volumes:
        assert "configMap" in volume or re.fullmatch(r"\d+[GM]i", volume["emptyDir"]["sizeLimit"]), (name, volume["name"])
    for name, container in containers(manifests):
        options = parse_spark_options(variables(manifests, container).get("HEADRACE_SPARK_OPTIONS", ""))
        if options:
            volume = "spark.kubernetes.executor.volumes.emptyDir.spark-local-dir-1"
            assert {f"{volume}.mount.path", f"{volume}.options.sizeLimit"} <= options.keys(), name


def test_every_variable_is_a_setting_that_exists(manifests: list[dict[str, Any]]) -> None:
    settings = {f"HEADRACE_{name.upper()}" for name in Settings.fields}
    for name, container in containers(manifests):
        values = variables(manifests, container)
        assert {key for key in values if key.startswith("HEADRACE_")} <= settings, name


def test_drivers_tell_spark_how_to_create_executors(manifests: list[dict[str, Any]]) -> None:
    drivers = [
        container for name, container in containers(manifests) if name == "snode" or name == container["name"] == "scheduler"
    ]
    for driver in drivers:
        values = variables(manifests, driver)
        options = parse_spark_options(values["HEADRACE_SPARK_OPTIONS"])
        assert values["HEADRACE_SPARK_MASTER"].startswith("k8s://https://")
        assert options["spark.driver.host"] == GIVEN_BY_THE_POD["POD_IP"]
        assert options["spark.kubernetes.driver.pod.name"] == GIVEN_BY_THE_POD["POD_NAME"]
        assert options["spark.kubernetes.container.image"] == "headrace"
        mounted = {mount["mountPath"]: mount["name"] for mount in driver["volumeMounts"]}
        assert mounted[str(Path(options["spark.kubernetes.executor.podTemplateFile"]).parent)] == "executor"
        ports = {str(port["containerPort"]) for port in driver["ports"]}
        assert {value for name, value in options.items() if name.endswith(".port")} <= ports
        assert named(manifests, "ServiceAccount", options["spark.kubernetes.authenticate.executor.serviceAccountName"])
    assert len(drivers) == (2 if any(manifest["kind"] == "Deployment" for manifest in manifests) else 1)


def test_what_manifests_refer_to_exists(manifests: list[dict[str, Any]]) -> None:
    for name, template in pods(manifests).items():
        assert named(manifests, "ServiceAccount", template["spec"]["serviceAccountName"]), name
        volumes = {volume["name"]: volume for volume in template["spec"].get("volumes", ())}
        for volume in volumes.values():
            if "configMap" in volume:
                assert named(manifests, "ConfigMap", volume["configMap"]["name"])
        for container in template["spec"]["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= set(volumes), name
    labels = [template["metadata"]["labels"] for template in pods(manifests).values()]
    selectors = [each["spec"]["selector"] for each in manifests if each["kind"] in {"Service", "PodDisruptionBudget"}]
    for selector in selectors:
        wanted = selector.get("matchLabels", selector).items()
        assert any(wanted <= label.items() for label in labels)
    snode = named(manifests, "StatefulSet", "snode")
    assert named(manifests, "Service", snode["spec"]["serviceName"])["spec"]["clusterIP"] == "None"


def test_only_pods_of_drivers_reach_the_api(manifests: list[dict[str, Any]]) -> None:
    binding = named(manifests, "RoleBinding", "driver")
    assert [subject["name"] for subject in binding["subjects"]] == ["driver"]
    users = {name for name, template in pods(manifests).items() if template["spec"]["serviceAccountName"] == "driver"}
    assert users <= {"snode", "scheduler"}
    assert named(manifests, "ServiceAccount", "headrace")["automountServiceAccountToken"] is False


def test_all_pods_are_allowed_by_the_restricted_standard(manifests: list[dict[str, Any]]) -> None:
    for name, template in pods(manifests).items():
        security = template["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert {next(key for key in volume if key != "name") for volume in template["spec"].get("volumes", ())} <= {
            "emptyDir",
            "configMap",
        }
    for name, container in containers(manifests):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name


def test_what_pods_write_is_on_volumes(manifests: list[dict[str, Any]]) -> None:
    for name, container in containers(manifests):
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        needed = {"/tmp", container.get("workingDir", "/tmp")}
        values = variables(manifests, container)
        needed |= {values["HEADRACE_HOME"]} if "HEADRACE_HOME" in values else set()
        needed |= {"/srv/airflow"} if any(key.startswith("AIRFLOW__") for key in values) else set()
        assert needed <= mounted, name
    (executor,) = pods(manifests)["executor"]["spec"]["containers"]
    assert executor["workingDir"] != "/tmp", "executors fetch jars to where they run, which no other program may share"


def test_pods_are_reached_by_those_of_the_namespace_and_reach_no_metadata_of_clouds(manifests: list[dict[str, Any]]) -> None:
    inbound, outbound = (named(manifests, "NetworkPolicy", name)["spec"] for name in ("within-namespace", "no-metadata"))
    for policy in (inbound, outbound):
        assert policy["podSelector"] == {}, "it is about all pods"
    assert inbound["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert outbound["policyTypes"] == ["Egress"]
    blocks = [
        ip_network(peer["ipBlock"]["cidr"]) for rule in outbound["egress"] for peer in rule.get("to", ()) if "ipBlock" in peer
    ]
    closed = [
        ip_network(cidr)
        for rule in outbound["egress"]
        for peer in rule.get("to", ())
        for cidr in peer.get("ipBlock", {}).get("except", ())
    ]
    links = map(ip_address, ("169.254.169.254", "169.254.170.2", "fe80::1"))
    for address in (*links, *METADATA):
        assert any(address in block for block in blocks)
        assert any(address in block for block in closed), address
    assert all(rule.get("to") or {port["port"] for port in rule["ports"]} == {53} for rule in outbound["egress"])


def test_the_endpoint_is_open_in_clear_only_where_a_policy_closes_it(manifests: list[dict[str, Any]]) -> None:
    for name, container in containers(manifests):
        values = variables(manifests, container)
        if values.get("HEADRACE_HTTP_WITHOUT_TLS") == "true":
            assert values["HEADRACE_HTTP_HOST"] == "0.0.0.0", name
            assert named(manifests, "NetworkPolicy", "within-namespace")["spec"]["policyTypes"] == ["Ingress"]


def test_probes_ask_for_what_the_endpoint_of_an_snode_answers() -> None:
    app = create_app(Guard("t", "", lambda: None), lambda *_: None, lambda: Health(True, {}), lambda: "")  # type: ignore[arg-type,return-value]
    routes = {getattr(route, "path", "") for route in app.routes}
    driver = container_of(named(render("base"), "StatefulSet", "snode"))
    ports = {port["name"]: port["containerPort"] for port in driver["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert driver[probe]["httpGet"]["path"] in routes
        assert str(ports[driver[probe]["httpGet"]["port"]]) == variables(render("base"), driver)["HEADRACE_HTTP_PORT"]


def test_programs_that_pods_run_exist(manifests: list[dict[str, Any]]) -> None:
    for name, container in containers(manifests):
        program = container["command"][0]
        if program.startswith("/opt/headrace/"):
            path = ROOT / program.removeprefix("/opt/headrace/")
            assert os.access(path, os.X_OK), name
        else:
            assert program in {"airflow", "headrace", "sh"}, name


def test_airflow_uses_the_master_and_the_pools_of_the_settings() -> None:
    if find_command() is None:
        pytest.skip("neither kubectl nor kustomize is installed")
    manifests = render("airflow")
    scheduler = next(container for name, container in containers(manifests) if name == container["name"] == "scheduler")
    values = variables(manifests, scheduler)
    connection = json.loads(values[f"AIRFLOW_CONN_{SPARK_CONNECTION.upper()}"])
    assert connection == {"conn_type": "spark", "host": values["HEADRACE_SPARK_MASTER"]}
    assert values["HEADRACE_BACKFILL_POOL"] == BACKFILL_POOL
    assert values["HEADRACE_SNODES_IN_AIRFLOW"] == "false"
    snode = container_of(named(manifests, "StatefulSet", "snode"))
    assert snode["args"] == ["--no-fill"]
    assert variables(manifests, snode)["HEADRACE_AIRFLOW_URL"] == values["HEADRACE_AIRFLOW_URL"]


def test_airflow_has_real_users_with_passwords_of_their_own(manifests: list[dict[str, Any]]) -> None:
    assert "SIMPLE_AUTH" not in json.dumps(manifests)
    knowing = {name for name, container in containers(manifests) if "ADMIN_PASSWORD" in variables(manifests, container)}
    for name, container in containers(manifests):
        values = variables(manifests, container)
        if any(key.startswith("AIRFLOW__") for key in values):
            assert values["AIRFLOW__CORE__AUTH_MANAGER"].endswith(".FabAuthManager"), name
            assert knowing == {"prepare"}
    for container in (container for name, container in containers(manifests) if name == "prepare"):
        created = re.findall(r'users create --role (\w+) --username (\w+) --password "\$(\w+)"', container["command"][-1])
        assert created == [("Admin", "admin", "ADMIN_PASSWORD"), ("User", "headrace", "HEADRACE_AIRFLOW_PASSWORD")]


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """Put a program in front of all others, and return the environment with it."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("pod", "arguments"),
    [("snode-0", "snode --no-fill 8100"), ("snode-2", "snode --name snode3 --no-fill 8098")],
    ids=["first", "third"],
)
def test_a_pod_runs_the_snode_of_its_number(pod: str, arguments: str, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "headrace", 'echo "$@" $HEADRACE_HTTP_PORT')
    environment = {**os.environ, **path, "POD_NAME": pod, "HEADRACE_HTTP_PORT": "8100"}
    command = [str(ROOT / "bin" / "snode-of-pod"), "--no-fill"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == arguments


def test_the_program_of_an_executor_starts_the_class_that_spark_has(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "java", "printf '%s\\n' \"$@\"")
    names = (
        "DRIVER_URL",
        "EXECUTOR_ID",
        "EXECUTOR_CORES",
        "APPLICATION_ID",
        "EXECUTOR_POD_IP",
        "RESOURCE_PROFILE_ID",
        "EXECUTOR_POD_NAME",
    )
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} a" for number in range(11)}
    environment = {**os.environ, **path, **options, "SPARK_EXECUTOR_MEMORY": "512m"} | {f"SPARK_{name}": name for name in names}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [ROOT / "bin" / "spark-executor", "executor"], env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[:11] == list(options.values())
    assert lines[11:13] == ["-Xms512m", "-Xmx512m"]
    given = dict(zip(lines[16::2], lines[17::2], strict=True))
    assert sorted(given.values()) == sorted(names)
    jar = next((spark_home() / "jars").glob("spark-kubernetes_*.jar"))
    assert lines[15].replace(".", "/") + ".class" in zipfile.ZipFile(jar).namelist()
