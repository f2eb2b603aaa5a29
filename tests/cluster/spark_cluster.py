"""A standalone Spark cluster: a master and two workers of one core each, as processes that authenticate each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from headrace.runtime.processes import find_free_port
from headrace.storage.spark.jars import spark_home
from headrace.storage.spark.session import AUTHENTICATION
from tests.support.waiting import wait_until

HOST: Final = "127.0.0.1"
WORKERS: Final = 2
MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
SECRET: Final = "cluster-test-secret"
EXECUTOR_CLASS: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass
class Worker:
    """A worker's process and what it has started."""

    process: subprocess.Popen[bytes]

    def family(self) -> list[psutil.Process]:
        """Return the worker's process and all below it: executors, and their Python workers."""
        with suppress(psutil.NoSuchProcess):
            worker = psutil.Process(self.process.pid)
            return [worker, *worker.children(recursive=True)]
        return []

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of executors."""
        return [process for process in self.family() if EXECUTOR_CLASS in command_of(process)]

    def stopped_tasks(self) -> list[psutil.Process]:
        """Return the Python workers that have stopped themselves at a failpoint."""
        return [process for process in self.family() if is_stopped(process) and "python" in " ".join(command_of(process)[:1])]

    def kill(self) -> None:
        """Kill the worker with its executors, as if its machine were gone."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(60)


@dataclass
class SparkCluster:
    """A running cluster."""

    folder: Path
    port: int
    web_port: int
    master: subprocess.Popen[bytes]
    workers: list[Worker] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The master's address."""
        return f"spark://{HOST}:{self.port}"

    def status(self) -> dict[str, Any]:
        """Return what the master knows of its workers and applications; empty before it answers."""
        with suppress(httpx.HTTPError, ValueError):  # the server answers with an HTML page before it has added this one
            return dict(httpx.get(f"http://{HOST}:{self.web_port}/json/", trust_env=False).json())
        return {}

    def add_worker(self) -> Worker:
        """Start a worker and wait until the master knows it."""
        wanted = self.status().get("aliveworkers", 0) + 1
        options = ["--host", HOST, "--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / "work"), "--webui-port", "0"]
        worker = Worker(start_daemon(self.folder, WORKER_CLASS, *options, self.url))
        self.workers.append(worker)
        wait_until(lambda: self.status().get("aliveworkers", 0) >= wanted, "a worker to register", details=self.logs)
        return worker

    def logs(self) -> str:
        """Return the end of all logs."""
        paths = [*self.folder.glob("*.log"), *self.folder.glob("work/*/*/stderr")]
        return "\n".join(f"--- {path}\n{path.read_text()[-2000:]}" for path in sorted(paths))

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.kill()
        self.master.kill()
        self.master.wait(60)


@contextmanager
def running_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Run a cluster, and end its processes afterwards."""
    port, web_port = find_free_port(), find_free_port()
    options = ["--host", HOST, "--port", str(port), "--webui-port", str(web_port)]
    cluster = SparkCluster(folder, port, web_port, start_daemon(folder, MASTER_CLASS, *options))
    try:
        wait_until(cluster.status, "the master to answer", details=cluster.logs)
        for _ in range(WORKERS):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()


def start_daemon(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a daemon of Spark's with its log in a file of the folder."""
    home = spark_home()
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(f"-D{name}={value}" for name, value in AUTHENTICATION.items()),
        "_SPARK_AUTH_SECRET": SECRET,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    number = len(list(folder.glob("*.log")))
    with (folder / f"{number}-{name.rpartition('.')[2]}.log").open("wb") as log:
        return subprocess.Popen([str(home / "bin" / "spark-class"), name, *arguments], env=environment, stdout=log, stderr=log)


def command_of(process: psutil.Process) -> list[str]:
    """Return a process's command; empty if it is gone."""
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []


def is_stopped(process: psutil.Process) -> bool:
    """Return whether a process waits for SIGCONT."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False
