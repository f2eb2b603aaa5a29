"""A real Kafka broker for tests and benchmarks: one node of KRaft, from Maven's jars, with its data in a temporary folder."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.errors import ConfigurationError
from headrace.runtime.processes import find_free_port
from headrace.storage.spark.jars import JarSet, cached_jars, spark_home
from tests.support.broker_process import BrokerProcess, broker_folder
from tests.support.waiting import wait_until

VERSION: Final = "4.3.1"
LOG4J: Final = "2.25.4"
JARS: Final = JarSet(f"org.apache.kafka:kafka_2.13:{VERSION},org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J}", ())
JAVA_OPTIONS: Final = ("-Xmx256m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
USER: Final = "plant"
PASSWORD: Final = "s3cret"
PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
    "listener.name.secured.ssl.keystore.type": "PEM",
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secured.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{USER}="{PASSWORD}";',
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
}
LOGGING: Final = """<Configuration status="WARN">
<Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n%throwable"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass
class Broker(BrokerProcess):
    """A broker, which may be killed and started again with its data. One of its ports asks for TLS and a password."""

    jars: list[Path]
    port: int = field(default_factory=find_free_port)
    secured_port: int = field(default_factory=find_free_port)
    controller_port: int = field(default_factory=find_free_port)

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def security(self) -> dict[str, str]:
        """The attributes with which plugins connect to the secured port."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.secured_port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "certificate.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def format(self) -> None:
        """Write the settings, and the empty storage."""
        address, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        secured = f"127.0.0.1:{self.secured_port}"
        create_certificate(self.folder)
        settings = PROPERTIES | {
            "listeners": f"PLAINTEXT://{address},SECURED://{secured},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{address},SECURED://{secured}",
            "listener.name.secured.ssl.keystore.location": str(self.folder / "keys.pem"),
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.folder / "data"),
        }
        (self.folder / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        (self.folder / "log4j2.xml").write_text(LOGGING)
        (self.folder / "data").mkdir()
        identity = f"version=1\ncluster.id={random_id()}\nnode.id=1\ndirectory.id={random_id()}\n"
        (self.folder / "data" / "meta.properties").write_text(identity)

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        options = [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}", "-cp", ":".join(map(str, self.jars))]
        self.launch([java(), *JAVA_OPTIONS, *options, "kafka.Kafka", str(self.folder / "server.properties")])
        wait_until(self.answers, "Kafka to answer", details=self.log)

    def answers(self) -> bool:
        """Return whether the broker answers; fail if its process has ended."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.check_alive()
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.ms": 50})
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def kill(self) -> None:
        """Kill the broker as a loss of power would."""
        self.end(kills=True)

    def create_topic(self, partitions: int = 1, name: str = "", **options: str) -> str:
        """Create a topic, and return its name."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        name = name or f"t{uuid.uuid4().hex}"
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        settings = {key.replace("_", "."): value for key, value in options.items()}
        client.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(60)
        return name


def create_certificate(folder: Path) -> None:
    """Write a certificate for 127.0.0.1, and the keystore of the broker that has it with its key."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650", "-subj", "/CN=127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *options, *files], check=True, capture_output=True)
    (folder / "keys.pem").write_text(key.read_text() + certificate.read_text())


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def random_id() -> str:
    """Return an id as Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def has_jars() -> bool:
    """Return whether there is a broker, or it can be fetched."""
    try:
        return bool(cached_jars(JARS))
    except ConfigurationError:
        return False


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Run a broker, and end it afterwards.

    Raises:
        ConfigurationError: Its jars cannot be fetched.
    """
    # Spark's Ivy leaves out what Spark has itself.
    jars = [*cached_jars(JARS), *(spark_home() / "jars").glob("scala-library-2.13.*.jar")]
    with broker_folder("kafka") as folder:
        broker = Broker(folder, jars)
        try:
            broker.format()
            broker.start()
            yield broker
        finally:
            broker.kill()
