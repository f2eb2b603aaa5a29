"""What docker-compose.yaml says, with the variables of an environment file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

VARIABLE: Final = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?::(?P<kind>[?-])(?P<rest>[^}]*))?\})")
UNITS: Final = {"s": 1.0, "m": 60.0}


@dataclass(frozen=True)
class HealthCheck:
    """How an engine finds out whether a service is healthy."""

    command: tuple[str, ...]
    interval_s: float
    timeout_s: float
    retries: int
    start_period_s: float


@dataclass(frozen=True)
class Service:
    """One service, or one replica of it."""

    name: str
    host: str
    image: str
    dockerfile: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: Mapping[str, str]
    """Names of volumes by their path in the service."""
    folders: tuple[str, ...]
    """Paths of volumes without a name, which go with the container."""
    configs: Mapping[str, str]
    """Contents of files by their path in the service."""
    conditions: Mapping[str, str]
    """What has to be true of other services before this one starts."""
    health: HealthCheck | None
    is_unprivileged: bool
    is_read_only: bool
    stop_grace_s: float


def read_services(file: Path, variables: Mapping[str, str]) -> list[Service]:
    """Return the services, a replica each, in the order in which they can start.

    Raises:
        ValueError: A variable is required and not set.
    """
    content = interpolate(yaml.safe_load(file.read_text()), variables)
    services = [
        build(content, name, number, count)
        for name, fields in content["services"].items()
        for count in (int(fields.get("deploy", {}).get("replicas", 1)),)
        for number in range(1, count + 1)
    ]
    return ordered(services)


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace the variables in all texts."""
    if isinstance(value, dict):
        return {key: interpolate(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [interpolate(part, variables) for part in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        if text := variables.get(match["name"]):
            return text
        if match["kind"] == "-":
            return match["rest"]
        raise ValueError(f"{match['name']} is not set: {match['rest']}")

    return VARIABLE.sub(replace, value)


def build(content: Mapping[str, Any], name: str, number: int, count: int) -> Service:
    fields = content["services"][name]
    return Service(
        name=name if count == 1 else f"{name}-{number}",
        host=fields.get("hostname", name if count == 1 else f"{name}-{number}"),
        image=fields["image"],
        dockerfile=inline_dockerfile(content, fields["image"]),
        command=tuple(map(str, fields.get("command", ()))),
        environment={key: str(value) for key, value in fields.get("environment", {}).items()},
        volumes={target: volume for volume, _, target in (text.partition(":") for text in fields.get("volumes", ())) if target},
        folders=tuple(text for text in fields.get("volumes", ()) if ":" not in text),
        configs={each["target"]: content["configs"][each["source"]]["content"] for each in fields.get("configs", ())},
        conditions={other: each["condition"] for other, each in fields.get("depends_on", {}).items()},
        health=health_check(fields["healthcheck"]) if "healthcheck" in fields else None,
        is_unprivileged=fields.get("cap_drop") == ["ALL"] and "no-new-privileges:true" in fields.get("security_opt", ()),
        is_read_only=fields.get("read_only", False),
        stop_grace_s=seconds(fields.get("stop_grace_period", "10s")),
    )


def inline_dockerfile(content: Mapping[str, Any], image: str) -> str:
    """Return the Dockerfile that the service which builds an image has in it; empty if none has."""
    builds = [each.get("build") for each in content["services"].values() if each["image"] == image]
    return next((build["dockerfile_inline"] for build in builds if isinstance(build, dict) and "dockerfile_inline" in build), "")


def health_check(fields: Mapping[str, Any]) -> HealthCheck:
    kind, *command = fields["test"]
    if kind != "CMD":
        raise ValueError(f"health checks of the kind {kind} are not supported")
    periods = [seconds(fields[name]) for name in ("interval", "timeout", "start_period")]
    return HealthCheck(tuple(command), periods[0], periods[1], int(fields["retries"]), periods[2])


def seconds(text: str) -> float:
    return float(text[:-1]) * UNITS[text[-1]]


def ordered(services: list[Service]) -> list[Service]:
    """Return services after those that they depend on."""
    done: list[Service] = []
    while len(done) < len(services):
        names = {service.name for service in done}
        ready = [service for service in services if service.name not in names and set(service.conditions) <= names]
        if not ready:
            raise ValueError("services depend on each other in a circle")
        done += ready
    return done
