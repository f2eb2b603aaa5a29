"""The cluster that the tests share, a home whose drivers run on it, and drivers as Airflow submits them."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

ROOT = Path(__file__).parents[2]
AIRFLOW_HOME = tempfile.mkdtemp(prefix="headrace-cluster-tests-")
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ |= {"AIRFLOW_HOME": AIRFLOW_HOME, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
sys.path[:0] = [str(ROOT / "plugins"), str(ROOT / "dags")]

from headrace.context import Context  # noqa: E402
from headrace.runtime.context import open_context  # noqa: E402
from headrace.settings import Settings, load  # noqa: E402
from headrace.storage.spark.jars import spark_home  # noqa: E402
from headrace.storage.spark.session import launch_conf  # noqa: E402
from tests.cluster.spark_cluster import HOST, SECRET, SparkCluster, running_cluster  # noqa: E402
from tests.support.object_store import Server  # noqa: E402

OPTIONS: Final = (
    f"spark.driver.host={HOST}",
    f"spark.driver.bindAddress={HOST}",
    shlex.quote(f"spark.executor.extraJavaOptions={os.environ['HEADRACE_DRIVER_JAVA_OPTIONS']}"),
)


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def cluster(shared_cluster: SparkCluster) -> Iterator[SparkCluster]:
    """Provide the cluster with two workers; those that a test kills are replaced."""
    yield shared_cluster
    for worker in [worker for worker in shared_cluster.workers if worker.process.poll() is not None]:
        shared_cluster.replace_worker(worker)


@pytest.fixture
def settings(cluster: SparkCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """Return the settings of drivers that leave all but the smallest work to executors.

    The parameter "object store" is for tables that the workers reach only by what a driver sends them.
    """
    warehouse: dict[str, str] = {}
    if getattr(request, "param", "folder") == "object store":
        server: Server = request.getfixturevalue("object_store")
        warehouse = {name.removeprefix("HEADRACE_").lower(): value for name, value in server.variables.items()}
        warehouse["warehouse"] = server.create_bucket()
    return load(
        **warehouse,
        home=tmp_path / "home",
        spark_master=cluster.url,
        driver_memory="1g",
        snode_executor_memory="512m",
        task_executor_memory="512m",
        spark_options=" ".join(OPTIONS),
        spark_secret=SECRET,
        driver_rows=100,
        heartbeat_ms=200,
    )


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    opened = open_context(settings)
    yield opened
    opened.tables.close()
    opened.catalog.close()


class Driver:
    """A driver submitted to the cluster with the command that Airflow's task runs."""

    def __init__(self, settings: Settings, folder: Path, task: Any, **environment: str) -> None:
        self.log = folder / f"{task.dag_id}-{time.monotonic_ns()}.log"
        task.conf = launch_conf(settings, task.role)
        command = task._get_hook()._build_spark_submit_command(task.application)
        variables = os.environ | settings.environment() | {"SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=variables | environment, stdout=log, stderr=log)

    def text(self) -> str:
        """Return the end of the log."""
        return f"--- {self.log}\n{self.log.read_text()[-4000:]}"

    def kill(self) -> None:
        """Kill the driver with all below it."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.process.pid)
            for child in [*process.children(recursive=True), process]:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self.process.wait(60)


@pytest.fixture
def submit(
    settings: Settings, cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Driver]]:
    """Submit tasks of the generated DAGs; the drivers that are left at the end are killed by their ids."""
    connection = {"conn_type": "spark", "host": f"spark://{HOST}", "port": cluster.port}
    monkeypatch.setenv("AIRFLOW_CONN_HEADRACE_SPARK", json.dumps(connection))
    drivers: list[Driver] = []

    def start(task: Any, **environment: str) -> Driver:
        drivers.append(Driver(settings, tmp_path, task, **environment))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()
