"""A standalone Spark cluster: a master and two workers, as processes that authenticate each other."""

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
CORES: Final = 3
"""Of a worker. Any number of tasks runs on a core of the machine; this many applications have an executor on one worker."""
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
    workers: list[Worker] = field(default_factory=list)
    master: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The master's address."""
        return f"spark://{HOST}:{self.port}"

    def status(self) -> dict[str, Any]:
        """Return what the master knows of its workers and applications; empty before it answers."""
        with suppress(httpx.HTTPError, ValueError):  # the server answers with an HTML page before it has added this one
            return dict(httpx.get(f"http://{HOST}:{self.web_port}/json/", trust_env=False).json())
        return {}

    def start_master(self) -> None:
        """Start the master, which goes on with the applications and workers of the one before, and wait for these workers."""
        options = ["--host", HOST, "--port", str(self.port), "--webui-port", str(self.web_port)]
        self.master = start_daemon(self.folder, MASTER_CLASS, *options)
        wait_until(self.status, "the master to answer", details=self.logs)
        self.await_workers()

    def add_worker(self) -> None:
        """Start a worker and wait until the master knows it."""
        options = ["--host", HOST, "--cores", str(CORES), "--memory", "2g", "--work-dir", str(self.folder / "work")]
        self.workers.append(Worker(start_daemon(self.folder, WORKER_CLASS, *options, "--webui-port", "0", self.url)))
        self.await_workers()

    def await_workers(self) -> None:
        """Wait until the master knows the workers, and no others."""
        wanted = len(self.workers)
        wait_until(lambda: self.status().get("aliveworkers") == wanted, "the master to know its workers", details=self.logs)

    def replace_worker(self, worker: Worker) -> None:
        """Kill a worker unless it is dead, and start another one once the master has noticed."""
        worker.kill()
        self.workers.remove(worker)
        self.await_workers()
        self.add_worker()

    def kill_master(self) -> None:
        """Kill the master."""
        if self.master is not None:
            self.master.kill()
            self.master.wait(60)

    def logs(self) -> str:
        """Return the end of all logs."""
        paths = [*self.folder.glob("*.log"), *self.folder.glob("work/*/*/stderr")]
        return "\n".join(f"--- {path}\n{path.read_text()[-2000:]}" for path in sorted(paths))

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.kill()
        self.kill_master()


@contextmanager
def running_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Run a cluster, and end its processes afterwards."""
    cluster = SparkCluster(folder, find_free_port(), find_free_port())
    try:
        cluster.start_master()
        for _ in range(WORKERS):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()


def start_daemon(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a daemon of Spark's with its log in a file of the folder."""
    home = spark_home()
    recovery = {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": str(folder / "recovery")}
    options = AUTHENTICATION | recovery
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(f"-D{name}={value}" for name, value in options.items()),
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
