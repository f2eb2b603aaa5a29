"""Renders the manifests as `kubectl apply --kustomize` does."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "deploy" / "kubernetes"
FOLDERS: Final = ("base", "airflow")


def find_command() -> list[str] | None:
    """Return the command that renders a folder; None if neither kubectl nor kustomize is installed."""
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    return ["kustomize", "build"] if shutil.which("kustomize") else None


@cache
def render(folder: str) -> list[dict[str, Any]]:
    """Return the manifests of a folder, rendered; without a program for that, `base` is as its files have it.

    Raises:
        LookupError: The folder has patches, and no program is installed that applies them.
    """
    command = find_command()
    if command is not None:
        text = subprocess.run([*command, str(MANIFESTS / folder)], capture_output=True, text=True, check=True).stdout
        return list(yaml.safe_load_all(text))
    kustomization = read(MANIFESTS / folder / "kustomization.yaml")[0]
    if "patches" in kustomization:
        raise LookupError("neither kubectl nor kustomize is installed")
    return [manifest for name in kustomization["resources"] for manifest in read(MANIFESTS / folder / name)]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def pods(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specifications of all pods by the names of what creates them, with that of executors."""
    found = {}
    for manifest in manifests:
        spec = manifest.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template is not None:
            found[manifest["metadata"]["name"]] = template
    template = next(m for m in manifests if m["kind"] == "ConfigMap" and m["metadata"]["name"] == "executor")
    return found | {"executor": yaml.safe_load(template["data"]["pod.yaml"])}
