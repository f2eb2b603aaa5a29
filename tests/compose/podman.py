"""The image of the Dockerfile, built by Podman on a base of Debian's packages, and services of docker-compose.yaml in containers.

No registry is asked. The base stands for that of the Dockerfile; the images of PostgreSQL and of the object store are replaced by
Debian's PostgreSQL and by programs that Go has built on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compose.engine import Engine, Running
from tests.compose.images import GO_MODULE, POSTGRES_ENTRY, ROOT, Image, build
from tests.compose.topology import Service

NEEDED: Final = ("podman", "debootstrap", "catatonit")
BASE: Final = "localhost/base"
RELEASE: Final = "bookworm"
LIMITS: Final = ("nofile=16384:16384", "nproc=16384:16384")
AUTHORITIES: Final = Path("/usr/local/share/ca-certificates")
"""Certificates that an administrator of this machine trusts, as those of a proxy are."""
PIP_SETTINGS: Final = Path("/etc/pip.conf")

# Debian's Python where that of the official image is, for which pip installs packages.
FINISH_BASE: Final = """
update-ca-certificates
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED /var/cache/apt/archives/*.deb
mkdir -p /usr/share/man/man1
ln -s /usr/bin/python3 /usr/local/bin/python
ln -s /usr/bin/python3 /usr/local/bin/python3
ln -s /usr/bin/pip3 /usr/local/bin/pip
"""
POSTGRES: Final = f"""
FROM {BASE}
RUN apt-get update && apt-get install --no-install-recommends --yes postgresql \\
    && ln -s /usr/lib/postgresql/*/bin /usr/lib/postgresql/bin \\
    && mkdir --mode 700 /var/lib/postgresql/data && chown postgres:postgres /var/lib/postgresql/data
ENV PATH=/usr/lib/postgresql/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PGDATA=/var/lib/postgresql/data
USER postgres
"""


def missing_programs() -> list[str]:
    """Return the programs that this machine lacks."""
    runtimes = [] if shutil.which("runc") or shutil.which("crun") else ["runc"]
    return [name for name in NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None] + runtimes


@dataclass(frozen=True)
class Podman:
    """Podman with all of its files in one folder."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        places = [f"--{name}={self.folder / name}" for name in ("root", "runroot", "tmpdir")]
        runtime = shutil.which("runc") or "crun"
        return ["podman", *places, f"--runtime={runtime}", "--cgroup-manager=cgroupfs", "--events-backend=file", *arguments]

    def do(self, *arguments: str, folder: Path = ROOT) -> str:
        """Run a command to its end and return what it prints."""
        return subprocess.run(self.command(*arguments), cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout

    def build(self, tag: str, folder: Path, dockerfile: Path, *options: str) -> None:
        limits = [f"--ulimit={limit}" for limit in LIMITS]
        self.do("build", *limits, "--network=host", f"--file={dockerfile}", f"--tag={tag}", *options, str(folder), folder=folder)

    def import_base(self) -> None:
        """Create the image that stands for the one on which the Dockerfile builds."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            root = Path(scratch) / "base"
            packages = "--include=ca-certificates,python3,python3-pip,tzdata"
            subprocess.run(["debootstrap", "--variant=minbase", packages, RELEASE, root], stdout=subprocess.DEVNULL, check=True)
            shutil.copytree(AUTHORITIES, root / AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
            if PIP_SETTINGS.exists():
                shutil.copy(PIP_SETTINGS, root / "etc")
            subprocess.run(["chroot", root, "sh", "-ec", FINISH_BASE], stdout=subprocess.DEVNULL, check=True)
            subprocess.run(["tar", "-C", root, "-cf", root.with_suffix(".tar"), "."], check=True)
            self.do("import", "--change=ENV LANG=C.UTF-8", str(root.with_suffix(".tar")), BASE)

    def build_others(self, services: Iterable[Service]) -> None:
        """Build what stands for the images of other projects."""
        for service in {service.image: service for service in services}.values():
            with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
                dockerfile = Path(scratch) / "Dockerfile"
                if service.image.startswith("postgres:"):
                    dockerfile.write_text(POSTGRES)
                elif service.dockerfile:
                    dockerfile.write_text(copy_programs(service.dockerfile, Path(scratch)))
                else:
                    continue
                self.build(tag_of(service), Path(scratch), dockerfile)


def tag_of(service: Service) -> str:
    return f"localhost/{service.image.partition(':')[0]}"


def copy_programs(dockerfile: str, folder: Path) -> str:
    """Return the last stage of a Dockerfile on the base, and copy to the folder what it takes from the stage before."""
    for module, name, version in GO_MODULE.findall(dockerfile):
        shutil.copy(build(module, name, version), folder / name)
    _, _, stage = dockerfile.rpartition("FROM ")
    return re.sub(r"^\S+", f"FROM {BASE}", stage).replace("--from=build ", "").replace("/go/bin/", "")


@dataclass
class PodmanEngine(Engine):
    """Runs services in containers that share the network of this process."""

    podman: Podman | None = None

    def do(self, *arguments: str) -> list[str]:
        assert self.podman is not None
        return self.podman.command(*arguments)

    def start(self, service: Service) -> None:
        folder = self.folder / service.name
        folder.mkdir()
        for target, content in service.configs.items():
            (folder / Path(target).name).write_text(content)
        is_postgres = service.image.startswith("postgres:")
        command = ("sh", "-euc", POSTGRES_ENTRY) if is_postgres else service.command
        image = Image("", {}, stop_signal=signal.SIGINT if is_postgres else signal.SIGTERM)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                self.do("run", f"--name={service.name}", *self.options(service), *command), stdout=log, stderr=log
            )
        self.running[service.name] = Running(service, image, folder, folder, process)

    def options(self, service: Service) -> list[str]:
        """Return what the service says of its containers, and its image."""
        options = ["--init", "--network=host", f"--hostname={service.host}", *(f"--ulimit={limit}" for limit in LIMITS)]
        options += [f"--add-host={other.host}:{self.address(other.host)}" for other in self.services]
        options += [f"--env={name}={value}" for name, value in service.environment.items()]
        options += [f"--volume={name}:{target}" for target, name in service.volumes.items()]
        options += [f"--volume={path}" for path in service.folders]
        options += [f"--volume={self.folder / service.name / Path(path).name}:{path}:ro" for path in service.configs]
        if service.is_unprivileged:
            options += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
        if service.is_read_only:
            options += ["--read-only", "--read-only-tmpfs=false"]
        return [*options, tag_of(service)]

    def run(self, name: str, command: Iterable[str], timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command in a running container, or in another of a service that has ended."""
        running = self.running[name]
        start = ["exec", name] if running.process.poll() is None else ["run", "--rm", *self.options(running.service)]
        arguments = self.do(*start, *command)
        try:
            return subprocess.run(
                arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(arguments, 124, f"no end after {error.timeout} s")

    def down(self) -> dict[str, float]:
        durations = super().down()
        with suppress(subprocess.CalledProcessError):
            subprocess.run(self.do("rm", "--all", "--force", "--volumes"), stdout=subprocess.DEVNULL, check=True)
        return durations
