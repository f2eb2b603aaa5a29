"""A real MQTT broker for the tests: Mosquitto, with its data in a temporary folder.

Tests that need it are skipped if it is not installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from headrace.runtime.processes import find_free_port
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
class MqttBroker:
    """A broker, which may be stopped and started again with its data."""

    folder: Path
    program: str
    port: int = field(default_factory=find_free_port)
    secured_port: int = field(default_factory=find_free_port)
    process: subprocess.Popen[bytes] | None = None

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
        with (self.folder / "log").open("ab") as log:
            command = [self.program, "-c", str(self.folder / "mosquitto.conf")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self.accepts, "Mosquitto to accept connections", details=(self.folder / "log").read_text, pause_s=0.02)

    def accepts(self) -> bool:
        """Return whether the broker accepts connections; fail if its process has ended."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Stop the broker, which cuts all connections. Killed, Mosquitto would lose messages that it has acknowledged."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None


@contextmanager
def running_mqtt_broker() -> Iterator[MqttBroker]:
    """Run a broker, and end it afterwards."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="headrace-mqtt-"))
    broker = MqttBroker(folder, program)
    try:
        broker.configure()
        broker.start()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def mqtt() -> Iterator[MqttBroker]:
    """Provide the MQTT broker of a module of tests."""
    with running_mqtt_broker() as broker:
        yield broker
