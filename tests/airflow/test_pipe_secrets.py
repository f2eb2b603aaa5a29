"""Passwords of pipes that are those of connections, as Airflow itself has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

SCRIPT = """
import airflow.sdk
from headrace.errors import ConfigurationError
from headrace.secrets import reveal
from headrace.settings import load

for id in ("plant", "missing"):
    try:
        print(reveal(f"airflow:{id}", load()))
    except ConfigurationError as error:
        print(error.message)
"""


def test_a_password_is_read_from_the_secrets_backend_of_airflow(tmp_path: Path) -> None:
    connections = tmp_path / "connections.json"
    connections.write_text(json.dumps({"plant": {"conn_type": "iotdb", "host": "db", "login": "root", "password": "hunter2"}}))
    backend = {
        "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(connections)}),
        "HEADRACE_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ | backend, capture_output=True, text=True, check=True)
    found, missing = done.stdout.splitlines()[-2:]
    assert found == "hunter2"
    assert missing.startswith("connection missing of Airflow cannot be read: ")
