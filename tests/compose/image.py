"""The image as its users start it: without a network, with a volume for its home."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.compose.engine import ServiceError
from tests.compose.images import ROOT
from tests.compose.podman import BASE, LIMITS, Podman
from tests.compose.topology import Service

IMAGE: Final = "localhost/headrace"
STOP_SECONDS: Final = 30
SPARK: Final = """
import pathlib
from headrace.settings import load
from headrace.storage.spark.session import class_archive, start_session

rows = next(pathlib.Path(load().tables_uri).glob("d/m/rows"))
print(class_archive().exists(), start_session(load()).read.format("delta").load(str(rows)).count())
"""


def build_images(podman: Podman, services: list[Service], say: Callable[[str], None]) -> None:
    podman.import_base()
    say("the base is imported")
    started = time.monotonic()
    podman.build(IMAGE, ROOT, ROOT / "Dockerfile", f"--from={BASE}")
    size = int(podman.do("image", "inspect", "--format={{.Size}}", IMAGE)) / 1e9
    say(f"the Dockerfile is built in {time.monotonic() - started:.0f} s; the image has {size:.1f} GB")
    podman.build_others(services)
    say("what stands for the other images is built")


def check_alone(podman: Podman, say: Callable[[str], None]) -> None:
    """Check that a container without a network, rights and a writable file system answers, and keeps what it was given.

    Raises:
        ServiceError: It does not.
    """
    started = time.monotonic()
    expect(podman, ["headrace", "--version"], "headrace ")
    say(f"`headrace --version` takes {time.monotonic() - started:.1f} s")
    expect(podman, ["headrace", "doctor"], "class archive: exists")
    rows = "CREATE DATABASE d; CREATE TABLE d.m (ts TIMESTAMP, v INT); INSERT INTO d.m VALUES (1700000000000, 7)"
    expect(podman, ["headrace", "sql", rows], "1 rows")
    started = time.monotonic()
    expect(podman, ["headrace", "sql", "--format", "csv", "SELECT sum(v) s FROM d.m"], "7")
    say(f"the first answer of a container takes {time.monotonic() - started:.1f} s")
    expect(podman, ["python", "-c", SPARK], "True 1")
    expect(podman, ["sh", "-c", "find /srv/headrace ! -user headrace | wc -l"], "0")
    say("Spark reads the table without a network")
    check_stop(podman, say)


def expect(podman: Podman, command: list[str], text: str) -> None:
    arguments = podman.command("run", "--rm", *alone(), IMAGE, *command)
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0 or text not in done.stdout + done.stderr:
        raise ServiceError(f"{command} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def alone() -> list[str]:
    """Return options of a container as docker-compose.yaml has them, with a home of its own and no network."""
    rights = ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only", "--read-only-tmpfs=false"]
    volumes = ["--volume=alone:/srv/headrace", "--volume=/srv/airflow", "--volume=/tmp"]
    return ["--network=none", *rights, *volumes, *(f"--ulimit={limit}" for limit in LIMITS)]


def check_stop(podman: Podman, say: Callable[[str], None]) -> None:
    """Stop `headrace up` as an engine does, by SIGTERM to the first process of its container."""
    podman.do("run", "--detach", "--name=up", "--init", *alone(), IMAGE, "headrace", "up")
    deadline = time.monotonic() + 240
    snodes = podman.command("exec", "up", "headrace", "sql", "SHOW SNODES")
    while "True" not in subprocess.run(snodes, capture_output=True, text=True, check=False).stdout:
        if time.monotonic() > deadline:
            raise ServiceError(f"`headrace up` starts no snode: {podman.do('logs', 'up')[-2000:]}")
        time.sleep(1)
    started = time.monotonic()
    podman.do("stop", f"--time={STOP_SECONDS}", "up")
    code = podman.do("inspect", "--format={{.State.ExitCode}}", "up").strip()
    podman.do("rm", "up")
    say(f"`headrace up` ends {time.monotonic() - started:.0f} s after SIGTERM, with {code}")
    if code not in ("0", "143"):
        raise ServiceError(f"`headrace up` ended with {code} after SIGTERM")


def podman_of(folder: Path) -> Podman:
    return Podman(folder / "podman")
