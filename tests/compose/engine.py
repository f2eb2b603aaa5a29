"""Starts the services in the order of their dependencies, watches their health, runs commands in them, and stops them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.compose.enter import Specification
from tests.compose.images import ROOT, Image, image_of
from tests.compose.topology import Service

FIRST_ADDRESS: Final = 10
USERS: Final = {"headrace": 1000, "minio": 1000}
"""Users that images create."""


class ServiceError(Exception):
    """A service has failed, or has not become healthy."""


@dataclass
class Running:
    """A service that was started."""

    service: Service
    image: Image
    folder: Path
    specification: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> Path:
        return self.folder / "log"


@dataclass
class Engine:
    """Runs services; their files are below `folder`."""

    folder: Path
    services: list[Service]
    running: dict[str, Running] = field(default_factory=dict)

    def up(self) -> None:
        """Start all services, each as soon as its dependencies are as it needs them, and wait until all are healthy.

        Raises:
            ServiceError: One of them failed; has the end of its log.
        """
        for service in self.services:
            for other, condition in service.conditions.items():
                self.await_condition(other, condition)
            self.start(service)
        for name in self.running:
            self.await_condition(name, "service_healthy" if self.running[name].service.health else "service_started")

    def start(self, service: Service) -> None:
        image, folder = image_of(service), self.folder / service.name
        folder.mkdir()
        self.write_files(service, image, folder)
        specification = folder / "specification.json"
        specification.write_text(json.dumps(asdict(self.specify(service, image, folder))))
        command = (*image.entry, *service.command)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(enter(specification, command), stdout=log, stderr=log, cwd=ROOT)
        self.running[service.name] = Running(service, image, folder, specification, process)

    def specify(self, service: Service, image: Image, folder: Path) -> Specification:
        binds = {target: str(self.volume(volume, image.user)) for target, volume in service.volumes.items()}
        binds |= {target: str(folder / "configs" / target.lstrip("/")) for target in service.configs}
        binds |= {f"/opt/programs/{name}": str(program) for name, program in image.programs.items()}
        environment = {**image.environment, **service.environment}
        environment["PATH"] = f"/opt/programs:{environment['PATH']}"
        read_only = []
        if image.folder != "/":
            binds |= {image.folder: str(ROOT), "/srv/airflow": str(self.own(folder / "airflow", image.user))}
            read_only = [sys.base_prefix, str(ROOT)]
            environment["XDG_CACHE_HOME"] = str(self.own(self.folder / "cache", image.user))
        return Specification(
            service.host,
            str(folder),
            image.user,
            image.folder,
            environment,
            service.is_unprivileged,
            binds,
            read_only,
            service.is_read_only,
        )

    def write_files(self, service: Service, image: Image, folder: Path) -> None:
        """Write the service's copy of /etc, with all hosts and users, and its configuration files."""
        shutil.copytree("/etc", folder / "etc", symlinks=True)
        hosts = [f"{self.address(other.host)} {other.host}" for other in self.services]
        (folder / "etc" / "hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts]) + "\n")
        users = [f"{name}:x:{number}:{number}::/tmp:/bin/sh\n" for name, number in USERS.items() if name == image.user]
        passwd = folder / "etc" / "passwd"
        passwd.write_text("".join(users) + passwd.read_text())
        for target, content in service.configs.items():
            path = folder / "configs" / target.lstrip("/")
            path.parent.mkdir(parents=True)
            path.write_text(content)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)

    def address(self, host: str) -> str:
        """Return the address of a host: all are on the loopback interface."""
        return f"127.1.0.{FIRST_ADDRESS + [service.host for service in self.services].index(host)}"

    def volume(self, name: str, user: str) -> Path:
        return self.own(self.folder / "volumes" / name, user)

    def own(self, path: Path, user: str) -> Path:
        """Create a folder that a user of an image owns."""
        if not path.exists():
            path.mkdir(parents=True)
            shutil.chown(path, USERS.get(user, user))
        return path

    def await_condition(self, name: str, condition: str) -> None:
        """Wait until a service has started, is healthy, or has ended well."""
        for running in [
            each for each in self.running.values() if name in (each.service.name, each.service.name.rpartition("-")[0])
        ]:
            if condition == "service_healthy":
                self.await_health(running)
            elif condition == "service_completed_successfully" and running.process.wait() != 0:
                raise ServiceError(self.report(running, f"ended with {running.process.returncode}"))

    def await_health(self, running: Running) -> None:
        """Try the health check as an engine does: failures count once the period of the start is over."""
        health = running.service.health
        assert health is not None
        started, failures = time.monotonic(), 0
        while (done := self.run(running.service.name, health.command, timeout_s=health.timeout_s)).returncode != 0:
            if running.process.poll() is not None:
                raise ServiceError(self.report(running, f"ended with {running.process.returncode}"))
            failures += time.monotonic() - started > health.start_period_s
            if failures > health.retries:
                raise ServiceError(self.report(running, f"is not healthy: {done.stdout[-500:]}"))
            time.sleep(1)

    def run(self, name: str, command: Iterable[str], timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command in a running service, as `docker compose exec` does."""
        arguments = enter(self.running[name].specification, command)
        try:
            return subprocess.run(
                arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(arguments, 124, f"no end after {error.timeout} s")

    def report(self, running: Running, what: str) -> str:
        text = running.log.read_text(errors="replace")[-4_000:]
        return f"{running.service.name} {what}\n{text}"

    def down(self) -> dict[str, float]:
        """Stop all services that run, the last one first; return for how long each took."""
        durations = {}
        for name, running in reversed(self.running.items()):
            if running.process.poll() is None:
                started = time.monotonic()
                running.process.send_signal(running.image.stop_signal)
                with suppress(subprocess.TimeoutExpired):
                    running.process.wait(running.service.stop_grace_s)
                durations[name] = time.monotonic() - started
                running.process.kill()
                running.process.wait()
        return durations


def enter(specification: Path, command: Iterable[str]) -> list[str]:
    module = [sys.executable, "-m", "tests.compose.enter", str(specification)]
    return ["unshare", "--mount", "--uts", "--", *module, *command]
