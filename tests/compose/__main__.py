"""Runs the topology of docker-compose.yaml and uses it: `python -m tests.compose`, as root on Linux.

With `--image`, the services run in containers of the image that the Dockerfile describes, which is built and tried before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx

from headrace.storage.spark.jars import cache_directory
from tests.compose.engine import USERS, Engine, ServiceError
from tests.compose.image import build_images, check_alone, podman_of
from tests.compose.images import ROOT
from tests.compose.podman import PodmanEngine, missing_programs
from tests.compose.topology import read_services

WITH_IMAGE: Final = "--image"
INSIDE: Final = "HEADRACE_COMPOSE_INSIDE"
NAMESPACES: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
START: Final = 1_700_000_000_000
PATIENCE_S: Final = 240


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition, and return what it has returned."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise ServiceError(f"waited in vain for {what}")
        time.sleep(1)
    say(what)
    return value


def sql(engine: Engine, text: str, service: str = "scheduler") -> str:
    """Run statements as the compose file's first comment does."""
    done = engine.run(service, ["headrace", "sql", text])
    if done.returncode != 0:
        raise ServiceError(f"{text}: {done.stdout[-2000:]}")
    return done.stdout


def use(engine: Engine, variables: dict[str, str]) -> None:
    """Use the system as its users do, and check what the file promises."""
    check_airflow(variables)
    sql(engine, "CREATE DATABASE d; CREATE STABLE d.m (ts TIMESTAMP, v INT) TAGS (g INT)")
    sql(
        engine,
        "CREATE STREAM d.s TRIGGER AT_ONCE FILL_HISTORY 1 INTO d.o AS SELECT _wstart, count(*) n, sum(v) s FROM d.m INTERVAL(1m)",
    )
    sql(engine, f"INSERT INTO d.m1 USING d.m TAGS (1) VALUES ({START}, 1) ({START + 1}, 2)")
    until(lambda: "True" in sql(engine, "SHOW SNODES"), "Airflow has started the driver of the snode")
    until(lambda: "RUNNING" in sql(engine, "SHOW STREAMS"), "the stream runs")
    until(lambda: row(engine) == [2, 3], "the stream has computed")
    check_cluster(engine)
    check_tables(engine)
    killed = kill_driver(engine)
    sql(engine, f"INSERT INTO d.m1 VALUES ({START + 2}, 4)")
    until(lambda: row(engine) == [3, 7], f"another driver has computed after {killed} was killed")
    check_users(engine)


def row(engine: Engine) -> list[int]:
    """Return the row of the stream's target, or an empty list."""
    done = engine.run("scheduler", ["headrace", "sql", "--format", "json", "SELECT n, s FROM d.o"])
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]
    rows = lines[0] if lines and isinstance(lines[0], list) else lines
    return [int(value) for value in rows[0].values()] if rows else []


def check_airflow(variables: dict[str, str]) -> None:
    """Log in as the administrator of the environment file."""
    url = "http://127.0.0.1:8080"
    login = {"username": "admin", "password": variables["ADMIN_PASSWORD"]}
    response = httpx.post(f"{url}/auth/token", json=login, trust_env=False)
    assert response.status_code == 201, response.text
    wrong = httpx.post(f"{url}/auth/token", json=login | {"password": "wrong"}, trust_env=False)
    assert wrong.status_code == 401, wrong.text
    say("Airflow lets in who has the password of the environment file")


def check_cluster(engine: Engine) -> None:
    """Check that the driver's executors are on both workers."""
    address = engine.address("spark-master")
    state = until(lambda: httpx.get(f"http://{address}:8081/json/", trust_env=False).json(), "the master of Spark answers")
    assert state["aliveworkers"] == len(state["workers"]) == 2, state
    assert [application["state"] for application in state["activeapps"]] == ["RUNNING"], state["activeapps"]
    assert sum(worker["coresused"] for worker in state["workers"]) > 0, state["workers"]
    say("the driver's executors run on the workers")


def check_tables(engine: Engine) -> None:
    """Check that the tables are in the bucket, with the credentials of Headrace alone."""
    listed = engine.run("prepare-object-store", ["mc", "ls", "--recursive", "store/headrace"])
    assert "/o/rows/_delta_log/" in listed.stdout, listed.stdout[-2000:]
    say("the tables are in the object store")


def kill_driver(engine: Engine) -> int:
    """Kill the driver of the snode, and return its process."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and is_driver(path)]
    assert len(pids) == 1, pids
    os.kill(pids[0], 9)
    assert engine.running["scheduler"].process.poll() is None
    return pids[0]


def is_driver(path: Path) -> bool:
    words = path.joinpath("cmdline").read_bytes().split(b"\0")
    return words[0].endswith(b"python") and any(word.endswith(b"spark_jobs/snode.py") for word in words[:3])


def check_users(engine: Engine) -> None:
    """Check that services run as the users of their images, without capabilities if the file drops them."""
    for running in engine.running.values():
        if running.process.poll() is None and running.service.is_unprivileged:
            status = engine.run(running.service.name, ["cat", "/proc/self/status"]).stdout
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            assert "0" not in fields["Uid"].split(), running.service.name
            assert (fields["CapBnd"], fields["NoNewPrivs"]) == ("0" * 16, "1"), running.service.name
    say("services have no privileges")


def inside(folder: Path) -> int:
    """Run everything within the namespaces; this process is their first."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    variables = read_variables(folder)
    services = read_services(ROOT / "docker-compose.yaml", variables)
    engine = PodmanEngine(folder, services, podman=podman_of(folder)) if WITH_IMAGE in sys.argv else Engine(folder, services)
    try:
        say(f"starting {', '.join(service.name for service in engine.services)}")
        engine.up()
        say("all services are healthy")
        use(engine, variables)
    except (AssertionError, ServiceError) as error:
        print(f"FAILED: {error}")  # noqa: T201
        return 1
    finally:
        durations = engine.down()
    late = [name for name, duration in durations.items() if duration > engine.running[name].service.stop_grace_s]
    say(f"stopped in {sum(durations.values()):.0f} s" + (f"; killed after their period: {', '.join(late)}" if late else ""))
    return 0


def read_variables(folder: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (folder / ".env").read_text().splitlines())


def prepare_image(folder: Path) -> None:
    """Build all images, and try that of the Dockerfile without the other services."""
    podman = podman_of(folder)
    podman.folder.mkdir()
    build_images(podman, read_services(ROOT / "docker-compose.yaml", read_variables(folder)), say)
    check_alone(podman, say)


def fetch_jars(cache: Path) -> None:
    """Do what the Dockerfile does for the user of the image: fetch Spark's jars, or copy those that this user has."""
    shutil.copytree(
        cache_directory(), cache / "headrace", ignore=lambda _, names: [name for name in names if not is_for_drivers(name)]
    )
    setup = [sys.executable, "-m", "headrace.cli.main", "setup"]
    subprocess.run(setup, env=os.environ | {"HEADRACE_WAREHOUSE": "s3://any", "XDG_CACHE_HOME": str(cache)}, check=True)
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.chown(path, USERS["headrace"])


def is_for_drivers(name: str) -> bool:
    return name.endswith(".jar") or (name.startswith("jars-") and not name.endswith(".lock"))


def main() -> int:
    """Create the secrets, and run the rest in namespaces of its own."""
    if os.environ.get(INSIDE):
        return inside(Path(os.environ[INSIDE]))
    if WITH_IMAGE in sys.argv and (missing := missing_programs()):
        say(f"skipped: this machine lacks {', '.join(missing)}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="headrace-compose-", dir="/var/tmp"))
    folder.chmod(0o755)
    subprocess.run([ROOT / "bin" / "compose-env", folder / ".env"], check=True)
    if WITH_IMAGE in sys.argv:
        prepare_image(folder)
    else:
        fetch_jars(folder / "cache")
    command = ["unshare", *NAMESPACES, "--", sys.executable, "-m", "tests.compose", *sys.argv[1:]]
    code = subprocess.run(command, env=os.environ | {INSIDE: str(folder)}, cwd=ROOT, check=False).returncode
    if code == 0:
        shutil.rmtree(folder)
    else:
        say(f"the logs are in {folder}")
    return code


if __name__ == "__main__":
    sys.exit(main())
