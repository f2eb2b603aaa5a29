"""JSON schemas of Kubernetes' API, as far as the manifests use it.

`data/kubernetes.json` has the schemas of the kinds below and what they refer to, in their strict form, in which unknown fields are
errors. To write it from another version of the package kubernetes-validate, which has the schemas of all kinds:

    uv run --with kubernetes-validate python -m tests.deploy.schemas v1.34.0
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).parent / "data" / "kubernetes.json"
KINDS: Final = (
    "configmap-v1",
    "cronjob-batch-v1",
    "deployment-apps-v1",
    "job-batch-v1",
    "namespace-v1",
    "networkpolicy-networking-v1",
    "pod-v1",
    "poddisruptionbudget-policy-v1",
    "role-rbac-v1",
    "rolebinding-rbac-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
REFERENCE: Final = "/api/_definitions.json#/$defs/"


@cache
def schemas() -> dict[str, Any]:
    """Return the schemas of the kinds by `apiVersion/kind`, and their definitions."""
    return dict(json.loads(FILE.read_text()))


def problems(manifest: dict[str, Any]) -> list[str]:
    """Return what Kubernetes' API would reject in a manifest."""
    import jsonschema  # type: ignore[import-untyped]

    name = f"{manifest.get('apiVersion')}/{manifest.get('kind')}"
    if name not in schemas()["kinds"]:
        return [f"{name} is not a kind that manifests use"]
    validator = jsonschema.Draft7Validator(schemas()["kinds"][name] | {"$defs": schemas()["$defs"]})
    return [f"{name} {error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]


def prune(folder: Path, version: str) -> dict[str, Any]:
    """Return the schemas of the kinds, without descriptions, from a folder with those of all."""
    definitions = json.loads((folder / "_definitions.json").read_text())["$defs"]
    roots = {name: json.loads((folder / f"{name}.json").read_text()) for name in KINDS}
    needed: dict[str, Any] = {}
    pending = [name for root in roots.values() for name in references(root)]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed[name] = simplified(definitions[name])
            pending += references(definitions[name])
    kinds = {kind_name(root): simplified(root) for root in roots.values()}
    return {"version": version, "kinds": kinds, "$defs": dict(sorted(needed.items()))}


def kind_name(root: dict[str, Any]) -> str:
    return "/".join(root["properties"][name]["enum"][0] for name in ("apiVersion", "kind"))


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.rpartition("/")[2]
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from references(part)


def simplified(schema: Any) -> Any:
    """Return a schema without descriptions and extensions, whose references are within one file."""
    if isinstance(schema, list):
        return [simplified(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "description" and isinstance(value, str))}
    kept = {key: simplified(value) for key, value in kept.items() if not key.startswith(("x-kubernetes", "$schema", "$id"))}
    if isinstance(reference := kept.get("$ref"), str):
        kept["$ref"] = reference.replace(REFERENCE, "#/$defs/")
    return kept


def main(version: str) -> None:
    """Write the file of schemas."""
    import kubernetes_validate  # type: ignore[import-not-found]

    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"{version}-local-strict"
    FILE.write_text(json.dumps(prune(folder, version), separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
