"""What images have beside files: a user, an environment, a folder, a command; and the programs of this machine in their place."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from filelock import FileLock

from headrace.storage.spark.jars import cache_directory
from tests.compose.topology import Service
from tests.support.postgres import find_programs

ROOT: Final = Path(__file__).parents[2]
GO_MODULE: Final = re.compile(r"\b(github\.com/[\w./-]+/(\w+))@(\S+)")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What the entry point of PostgreSQL's image does with the variables and files that the service has.
POSTGRES_ENTRY: Final = """
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    initdb --username=postgres --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 --no-sync -E UTF8 \\
        --locale=C.UTF-8
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    pg_ctl --wait --options="-c listen_addresses='' -c unix_socket_directories=/tmp" start
    for file in /docker-entrypoint-initdb.d/*.sql; do
        psql --set ON_ERROR_STOP=1 --no-psqlrc --host /tmp --username postgres --file "$file"
    done
    pg_ctl --wait --mode fast stop
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
"""


@dataclass(frozen=True)
class Image:
    """What a process of an image starts with."""

    user: str
    environment: Mapping[str, str]
    folder: str = "/"
    entry: tuple[str, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    programs: Mapping[str, Path] = field(default_factory=dict)
    """Programs that the image has in /usr/local/bin."""


def image_of(service: Service) -> Image:
    """Return the image of a service.

    Raises:
        LookupError: This machine lacks its programs.
    """
    if service.image.startswith("postgres:"):
        folder = find_programs()
        if folder is None:
            raise LookupError("PostgreSQL is not installed")
        variables = {"PATH": f"{folder}:{PATH}", "PGDATA": next(iter(service.volumes))}
        return Image("postgres", variables, entry=("sh", "-euc", POSTGRES_ENTRY), stop_signal=signal.SIGINT)
    if service.image == "headrace":
        return own_image()
    return go_image(service)


def own_image() -> Image:
    """Return the image of the Dockerfile, with the packages of this environment."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    (variables,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    environment = dict(pair.split("=", 1) for pair in variables.split())
    environment |= {"PATH": f"{Path(sys.executable).parent}:{PATH}", "PYSPARK_PYTHON": sys.executable}
    return Image(last(text, "USER"), environment, folder=last(text, "WORKDIR"))


def go_image(service: Service) -> Image:
    """Return an image whose Dockerfile builds modules of Go, of the versions that it names."""
    modules = GO_MODULE.findall(service.dockerfile)
    programs = {name: build(path, name, version) for path, name, version in modules}
    return Image(last(service.dockerfile, "USER"), {"PATH": PATH}, programs=programs)


def last(dockerfile: str, instruction: str) -> str:
    return str(re.findall(rf"^{instruction} (\S+)", dockerfile, re.MULTILINE)[-1])


def build(module: str, name: str, version: str) -> Path:
    """Return a program that is built from a module of Go once."""
    program = cache_directory() / f"{name}-{version}"
    go = shutil.which("go")
    if not program.exists() and go is None:
        raise LookupError(f"there is no Go to build {name} with")
    with FileLock(f"{program}.lock"):
        if not program.exists():
            with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
                command = [str(go), "install", "-ldflags=-s -w", f"{module}@{version}"]
                subprocess.run(command, env=os.environ | {"GOBIN": scratch}, check=True)
                (Path(scratch) / name).rename(program)
    return program
