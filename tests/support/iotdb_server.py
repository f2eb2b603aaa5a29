"""A real IoTDB server for the tests: one config node and one data node, with their data in a temporary folder.

The jars of the server are not published, so `python -m tests.support.iotdb_server install` builds them once from the source release
with Maven and a JDK, which takes a few minutes, and keeps them in the user's cache. The variable HEADRACE_TEST_IOTDB names another
folder with a folder `lib` of such jars. If there are none, tests that need the server are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

from headrace.runtime.processes import find_free_port
from headrace.storage.spark.jars import cache_directory
from tests.support.waiting import wait_until

VERSION: Final = "1.3.4"
VARIABLE: Final = "HEADRACE_TEST_IOTDB"
MISSING: Final = "there is no IoTDB server: make iotdb-server builds one (Maven and a JDK are needed)"
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
SKIPPED_CHECKS: Final = (
    "-Dmaven.test.skip=true",
    "-Dcheckstyle.skip",
    "-Dspotless.check.skip=true",
    "-Dspotless.apply.skip=true",
    "-Drat.skip",
    "-Denforcer.skip",
    "-Dmdep.analyze.skip=true",
    "-Dmaven.source.skip=true",
    "-Dremoteresources.skip=true",
    "-Dxml-format.skip=true",
)
MODULES: Final = {"confignode": "iotdb-confignode", "datanode": "iotdb-server"}
CLASSES: Final = {
    "confignode": "org.apache.iotdb.confignode.service.ConfigNode",
    "datanode": "org.apache.iotdb.db.service.DataNode",
}
OPENED_PACKAGES: Final = ("java.util.concurrent", "java.lang", "java.util", "java.nio", "java.io", "java.net")
PORTS: Final = ("rpc", "config", "config_consensus", "internal", "exchange", "schema_consensus", "data_consensus")
OFF_HEAP_MB: Final = 512
HEAPS: Final = {"confignode": "256m", "datanode": "768m"}
SETTINGS: Final = """\
cluster_name=defaultCluster
cn_seed_config_node=127.0.0.1:{config}
dn_seed_config_node=127.0.0.1:{config}
cn_internal_address=127.0.0.1
cn_internal_port={config}
cn_consensus_port={config_consensus}
dn_rpc_address=127.0.0.1
dn_rpc_port={rpc}
dn_internal_address=127.0.0.1
dn_internal_port={internal}
dn_mpp_data_exchange_port={exchange}
dn_schema_region_consensus_port={schema_consensus}
dn_data_region_consensus_port={data_consensus}
schema_replication_factor=1
data_replication_factor=1
config_node_consensus_protocol_class=org.apache.iotdb.consensus.simple.SimpleConsensus
schema_region_consensus_protocol_class=org.apache.iotdb.consensus.simple.SimpleConsensus
data_region_consensus_protocol_class=org.apache.iotdb.consensus.iot.IoTConsensus
cn_metric_reporter_list=
dn_metric_reporter_list=
wal_buffer_size_in_byte=8388608
wal_mode=SYNC
"""
LOGGING: Final = """\
<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d %-5p %c{{1}} - %m%n</pattern></encoder>
  </appender>
  <root level="info"><appender-ref ref="FILE"/></root>
</configuration>
"""


def find_libraries() -> Path | None:
    """Return the folder of the server's jars; None if they were not built."""
    named = os.environ.get(VARIABLE)
    folder = (Path(named) if named else installed_folder()) / "lib"
    return folder if folder.is_dir() else None


def installed_folder() -> Path:
    return cache_directory() / f"iotdb-{VERSION}"


@dataclass
class Server:
    """A server that can be killed and started again with its data and ports.

    Attributes:
        libraries: The folder of its jars.
        folder: The folder of its data, configuration and logs.
        settings: Lines that are added to its configuration.
        ports: The ports of both nodes by what they are for.
    """

    libraries: Path
    folder: Path
    settings: str = ""
    ports: dict[str, int] = field(default_factory=lambda: {name: find_free_port() for name in PORTS})
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        """The port of clients."""
        return self.ports["rpc"]

    def start(self) -> None:
        """Start both nodes, and wait until the data node accepts clients."""
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "iotdb-system.properties").write_text(SETTINGS.format(**self.ports) + self.settings)
        self._start_node("confignode", "config")
        self._start_node("datanode", "rpc")

    def _start_node(self, node: str, port: str) -> None:
        conf = self.folder / "conf"
        (conf / f"logback-{node}.xml").write_text(LOGGING.format(file=self.folder / f"{node}.log"))
        with (self.folder / f"{node}.out").open("ab") as output:
            process = subprocess.Popen(self._command(node), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder)
        self._processes[node] = process
        wait_until(lambda: self._accepts(process, self.ports[port]), f"IoTDB's {node} to start", details=lambda: self.log(node))

    def _command(self, node: str) -> list[str]:
        home, heap = self.folder, HEAPS[node]
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        homes = [
            f"-D{name}={home}"
            for name in ("CONFIGNODE_HOME", "CONFIGNODE_DATA_HOME", "IOTDB_HOME", "IOTDB_DATA_HOME", "TSFILE_HOME")
        ]
        folders = [f"-D{name}={home / 'conf'}" for name in ("CONFIGNODE_CONF", "IOTDB_CONF", "TSFILE_CONF")]
        memory = [f"-Xms{heap}", f"-Xmx{heap}", f"-XX:MaxDirectMemorySize={OFF_HEAP_MB}m", f"-DOFF_HEAP_MEMORY={OFF_HEAP_MB}M"]
        quick = ["-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        logging = f"-Dlogback.configurationFile={home / 'conf' / f'logback-{node}.xml'}"
        return ["java", *opened, *memory, *quick, logging, *homes, *folders, "-cp", f"{self.libraries}/*", CLASSES[node], "-s"]

    def _accepts(self, process: subprocess.Popen[bytes], port: int) -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"IoTDB ended while it started:\n{self.log('datanode')}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    def log(self, node: str) -> str:
        """Return the end of a node's log."""
        paths = (self.folder / f"{node}.out", self.folder / f"{node}.log")
        return "".join(path.read_text(errors="replace")[-3000:] for path in paths if path.exists())

    def kill(self, node: str = "datanode") -> None:
        """End a node at once, as `kill -9` does."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def restart(self) -> None:
        """Start the data node again after it was killed."""
        self._start_node("datanode", "rpc")

    def stop(self) -> None:
        """End both nodes; the data is of no use afterwards, so they need not write it."""
        for node in list(self._processes):
            self.kill(node)


@contextmanager
def running_server(libraries: Path, settings: str = "") -> Iterator[Server]:
    """Run a server without data, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-iotdb-"))
    server = Server(libraries, folder, settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def required_libraries() -> Path:
    """Return the folder of the server's jars, or skip the test."""
    libraries = find_libraries()
    if libraries is None or shutil.which("java") is None:
        pytest.skip(MISSING)
    return libraries


@pytest.fixture(scope="module")
def iotdb_server() -> Iterator[Server]:
    """Provide a server for the tests of a module, or skip them."""
    with running_server(required_libraries()) as server:
        yield server


def install() -> Path:
    """Build the server's jars unless they are there, and return their folder."""
    folder = installed_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "lib").is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                build(Path(scratch))
                folder.mkdir(exist_ok=True)
                (Path(scratch) / "lib").rename(folder / "lib")
    return folder


def build(scratch: Path) -> None:
    """Build the two nodes, and put their jars and those that they need into `lib`."""
    run_maven(
        scratch,
        f"{DEPENDENCY_PLUGIN}:copy",
        f"-Dartifact=org.apache.iotdb:iotdb-parent:{VERSION}:zip:source-release",
        f"-DoutputDirectory={scratch}",
    )
    archive = next(scratch.glob("*.zip"))
    with zipfile.ZipFile(archive) as source:
        source.extractall(scratch)
    root = next(path.parent for path in scratch.glob("*/pom.xml"))
    replace_mqtt_library(root)
    libraries = scratch / "lib"
    projects = ",".join(f"iotdb-core/{module}" for module in MODULES)
    copied = (f"{DEPENDENCY_PLUGIN}:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={libraries}")
    run_maven(root, *SKIPPED_CHECKS, "-pl", projects, "-am", "package", *copied)
    for module, name in MODULES.items():
        shutil.copy(root / "iotdb-core" / module / "target" / f"{name}-{VERSION}.jar", libraries)


def replace_mqtt_library(root: Path) -> None:
    """Take the MQTT broker, which is off, from Maven's central repository, instead of one that is often not reachable."""
    main = root / "pom.xml"
    main.write_text(re.sub(r"<repositories>.*?</repositories>", "", main.read_text(), flags=re.DOTALL))
    for path in (main, root / "iotdb-core" / "datanode" / "pom.xml"):
        text = path.read_text().replace("com.github.moquette-io.moquette<", "io.moquette<")
        path.write_text(re.sub(r"(<moquette\.version>)[^<]*", r"\g<1>0.17", text))


def run_maven(folder: Path, *arguments: str) -> None:
    subprocess.run(["mvn", "-B", "-ntp", "-q", *arguments], cwd=folder, check=True)


def main(arguments: list[str]) -> int:
    """Build the server; return the exit code."""
    if arguments != ["install"]:
        print("usage: python -m tests.support.iotdb_server install", file=sys.stderr)  # noqa: T201
        return 2
    print(install())  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
