"""The pages about Kubernetes and systemd: their commands name what there is, and their manifest can be rendered."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from headrace.cli.app import app
from tests.deploy.kustomize import MANIFESTS, ROOT, find_command, read
from tests.deploy.schemas import problems
from tests.deploy.test_kubernetes import SECRETS
from tests.docs.pages import CLUSTER_REASON, MACHINE_REASON, Block, parse_blocks

GUIDES = ROOT / "docs" / "guides"
UNITS = ROOT / "deploy" / "systemd"


def commands(page: str, reason: str) -> str:
    """Return the commands of a page that are not run."""
    return "\n".join(block.text for block in parse_blocks(GUIDES / page) if block.skip_reason == reason)


def names(pattern: str, text: str) -> set[str]:
    return set(re.findall(pattern, text))


def test_units_and_files_of_the_page_exist() -> None:
    text = commands("systemd.md", MACHINE_REASON)
    units = {re.sub(r"@\w+", "@", unit) for unit in names(r"enable --now (\S+)", text)}
    assert units == {"headrace", "headrace-snode@", "headrace-airflow.target"}
    assert all((UNITS / (unit if "." in unit else f"{unit}.service")).is_file() for unit in units)
    assert all((ROOT / folder).is_dir() for folder in names(r"/opt/headrace/(deploy[\w/]+)", text))


@pytest.mark.parametrize(("page", "reason"), [("systemd.md", MACHINE_REASON), ("kubernetes.md", CLUSTER_REASON)])
def test_commands_of_headrace_exist(page: str, reason: str) -> None:
    used = names(r"(?:bin/|-- )headrace (\w+)", commands(page, reason))
    assert used
    assert used <= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def test_secrets_of_the_page_are_those_of_the_manifests() -> None:
    text = commands("kubernetes.md", CLUSTER_REASON)
    assert names(r"create secret generic ([\w-]+)", text) == set(SECRETS)
    for file, secret in (("secrets.env", "headrace"), ("airflow.env", "airflow")):
        (content,) = names(rf"(?s)cat > {re.escape(file)} <<END\n(.*?)END", text)
        assert names(r"(?m)^(\w+)=", content) == SECRETS[secret]
    assert names(r"--from-literal=(\w+)=", text) == SECRETS["airflow-login"] | SECRETS["airflow-admin"]


def test_objects_of_the_page_exist() -> None:
    text = commands("kubernetes.md", CLUSTER_REASON)
    (snode,) = (one for one in read(MANIFESTS / "base" / "snode.yaml") if one["kind"] == "StatefulSet")
    assert names(r"statefulset/(\w+)", text) == names(r"exec (\w+)-0", text) == {snode["metadata"]["name"]}
    (namespace,) = read(MANIFESTS / "base" / "namespace.yaml")
    assert names(r"--namespace (\w+)", text) == {namespace["metadata"]["name"]}


def test_the_manifest_of_the_page_changes_image_and_settings(tmp_path: Path) -> None:
    command = find_command()
    if command is None:
        pytest.skip("neither kubectl nor kustomize is installed")
    (block,) = manifests_of("kubernetes.md")
    folder = tmp_path / "own"
    folder.mkdir()
    copy = tmp_path / "base"
    subprocess.run(["cp", "-r", str(MANIFESTS / "base"), str(copy)], check=True)
    (folder / "kustomization.yaml").write_text(block.text.replace("../deploy/kubernetes/base", "../base"))
    rendered = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=True).stdout
    manifests = list(yaml.safe_load_all(rendered))
    assert [problem for manifest in manifests for problem in problems(manifest)] == []
    settings = next(one for one in manifests if (one["kind"], one["metadata"]["name"]) == ("ConfigMap", "headrace"))
    assert settings["data"]["HEADRACE_WAREHOUSE"] == "s3://bucket/headrace"
    assert "image: registry.example/headrace:0.1.0" in rendered
    assert "image: headrace" not in rendered


def manifests_of(page: str) -> list[Block]:
    return [block for block in parse_blocks(GUIDES / page) if block.language == "yaml"]
