"""A real MQTT broker for the tests: Mosquitto, with its data in a temporary folder.

Tests that need it are skipped if it is not installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest

from headrace.runtime.processes import find_free_port
from tests.support.broker_process import BrokerProcess, broker_folder
from tests.support.waiting import wait_until

MISSING: Final = "there is no MQTT broker: apt-get install mosquitto"
USER: Final = "plant"
PASSWORD: Final = "secret"
SETTINGS: Final = """
user root
listener {port} 127.0.0.1
allow_anonymous true
listener {secured_port} 127.0.0.1
allow_anonymous false
password_file {folder}/passwords
per_listener_settings true
persistence true
persistence_location {folder}/
max_queued_messages 0
log_dest stderr
"""


@dataclass
class MqttBroker(BrokerProcess):
    """A broker, which may be stopped and started again with its data."""

    program: str
    port: int = field(default_factory=find_free_port)
    secured_port: int = field(default_factory=find_free_port)

    def configure(self) -> None:
        """Write the settings."""
        lines = SETTINGS.format(port=self.port, secured_port=self.secured_port, folder=self.folder).splitlines()
        ordered = sorted(lines, key=lambda line: not line.startswith("per_listener_settings"))
        (self.folder / "mosquitto.conf").write_text("\n".join(ordered) + "\n")
        passwords = self.folder / "passwords"
        passwords.touch()
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), USER, PASSWORD], check=True, capture_output=True)

    def start(self) -> None:
        """Start the broker, and wait until it accepts connections."""
        self.launch([self.program, "-c", str(self.folder / "mosquitto.conf")])
        wait_until(self.accepts, "Mosquitto to accept connections", details=self.log, pause_s=0.02)

    def accepts(self) -> bool:
        """Return whether the broker accepts connections; fail if its process has ended."""
        self.check_alive()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Stop the broker, which cuts all connections. Killed, Mosquitto would lose messages that it has acknowledged."""
        self.end(kills=False)


@contextmanager
def running_mqtt_broker() -> Iterator[MqttBroker]:
    """Run a broker, and end it afterwards."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip(MISSING)
    with broker_folder("mqtt") as folder:
        broker = MqttBroker(folder, program)
        try:
            broker.configure()
            broker.start()
            yield broker
        finally:
            broker.stop()


@pytest.fixture(scope="module")
def mqtt() -> Iterator[MqttBroker]:
    """Provide the MQTT broker of a module of tests."""
    with running_mqtt_broker() as broker:
        yield broker
